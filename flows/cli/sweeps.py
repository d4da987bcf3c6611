"""`slipway sweeps`: what sweeps there are, their leaderboards, and ending them. Needs no Prefect."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.command import NamedCommand
from flows.cli.options import ClusterName, OfVolume, Output, OutputFormat, Owner
from flows.cli.place import connect, usable_volumes
from flows.cli.show import number, say, show_facts, show_json, show_table

if TYPE_CHECKING:
    from blocks.clusters.port import Cluster
    from tasks.reports.sweep_board import Board

app = typer.Typer(help="Sweeps: many runs over a search space.", no_args_is_help=True)

SweepName = Annotated[str, typer.Argument(metavar="SWEEP", help="The sweep's name.")]
_MOST = 30


@app.command("list")
def list_sweeps(
    volume: Annotated[str | None, typer.Option(metavar="NAME", help="Only those of one volume.")] = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Show all sweeps, oldest first."""
    from blocks.clusters.names import check_name

    place = connect(cluster, owner)
    volumes = [check_name("volume", volume)] if volume else usable_volumes(place)
    boards = [board for name in volumes for board in _boards(place, name)]
    if output is Output.JSON:
        show_json([{k: v for k, v in board.to_json().items() if k != "runs"} for board in boards])
        return
    show_table(
        ("sweep", "volume", "method", "state", "trials", "metric", "best", "value"),
        [
            (
                *(b.record.sweep, b.record.volume, b.record.request.search.method),
                "completed" if b.state.over else "running",
                f"{b.state.trials}/{b.record.request.search.planned}",
                b.record.request.search.metric,
                *((b.best.run, number(b.best.value)) if b.best else ("", "")),
            )
            for b in boards
        ],
        empty="There are no sweeps. Begin one: slipway sweep FILE",
        right=("trials", "value"),
    )


@app.command(cls=NamedCommand)
def show(
    sweep: SweepName,
    volume: OfVolume = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the leaderboard there as CSV.")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report there: one HTML file that loads nothing.")
    ] = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Show a sweep's leaderboard, and write it as CSV or as a report with pictures."""
    from tasks.reports.sweep_page import drawn, facts, read_curves, render_sweep, tree

    place = connect(cluster, owner)
    board = board_of(place, sweep, volume)
    if csv:
        csv.write_text(board.csv(), encoding="utf-8")
        say(f"The leaderboard is in {csv}.")
    if report:
        curves = read_curves(place, board.record, drawn(board))
        report.write_text(render_sweep(board, curves), encoding="utf-8")
        say(f"The report is in {report}.")
    if output is Output.JSON:
        show_json(board.to_json())
        return
    show_facts({"sweep": board.record.sweep, "state": board.conclusion, **facts(board)})
    print()
    rows = board.table(_MOST)
    head = tuple(rows[0]) if rows else ("run",)
    show_table(
        head, [tuple(str(cell) for cell in row.values()) for row in rows], empty="It has no trials yet.", wraps="why"
    )
    if len(board.rows) > _MOST:
        say(f"… and {len(board.rows) - _MOST} more: -o json or --csv has all.")
    if board.forks:
        print(f"\n{tree(board)}")


@app.command(cls=NamedCommand)
def stop(
    sweep: SweepName,
    volume: OfVolume = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """End a sweep: nothing new begins, and what trains is stopped. What has completed stays."""
    from tasks.sweeps.stop import end_sweep

    place = connect(cluster, owner)
    where = board_of(place, sweep, volume).record.volume
    ended = end_sweep(place, where, sweep, "stopped by hand")
    if output is Output.JSON:
        show_json({"sweep": sweep, "volume": where, "stopped": ended})
        return
    say(f"Sweep {sweep} is ended." if ended else f"Sweep {sweep} is over already.")


def board_of(cluster: "Cluster", sweep: str, volume: str | None) -> "Board":
    """The leaderboard of a sweep on the volume that was named, else on the only one that has it.

    Raises:
        UsageError: it can not be a sweep's name.
        NotFoundError: no volume has it; names the nearest.
        ConflictError: several have it.
    """
    from blocks.clusters.errors import ConflictError, NotFoundError
    from blocks.clusters.names import check_name
    from tasks.pod.trainers.schema import nearest
    from tasks.reports.sweep_board import board
    from tasks.sweeps.records import read_sweep

    check_name("sweep", sweep)
    if volume:
        return board(*read_sweep(cluster, check_name("volume", volume), sweep))
    boards = [found for name in usable_volumes(cluster) for found in _boards(cluster, name)]
    named = [found for found in boards if found.record.sweep == sweep]
    if len(named) > 1:
        where = " and ".join(found.record.volume for found in named)
        raise ConflictError(f"The volumes {where} each have a sweep {sweep!r}.", "Say which with --volume.")
    if named:
        return named[0]
    there = sorted({found.record.sweep for found in boards})
    near = nearest(sweep, there)
    hint = f"Did you mean {near!r}?" if near else f"Sweeps there are: {', '.join(there[:8]) or 'none'}."
    raise NotFoundError(f"No volume of {cluster.owner!r} on cluster {cluster.name!r} has a sweep {sweep!r}.", hint)


def best_run(cluster: "Cluster", sweep: str, volume: str | None) -> tuple[str, str]:
    """The volume and the best run of a sweep.

    Raises:
        NotFoundError: no such sweep, or nothing of it has completed.
    """
    from blocks.clusters.errors import NotFoundError

    found = board_of(cluster, sweep, volume)
    if found.best is None:
        raise NotFoundError(f"Nothing of sweep {sweep} has completed.", f"See `slipway sweeps show {sweep}`.")
    return found.record.volume, found.best.run


def _boards(cluster: "Cluster", volume: str) -> "list[Board]":
    from tasks.reports.sweep_board import board
    from tasks.sweeps.records import read_sweeps

    found, damaged = read_sweeps(cluster, volume)
    for sweep, why in sorted(damaged.items()):
        say(f"warning: sweep {sweep} on volume {volume} is left out: {why}")
    return [board(record, state) for record, state in found]
