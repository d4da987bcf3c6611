"""`slipway runs delete` and `slipway runs release`."""

from typing import Annotated

import typer

from flows.cli.command import NamedCommand
from flows.cli.confirm import confirmed
from flows.cli.options import ClusterName, OfVolume, Output, OutputFormat, Owner, RunName
from flows.cli.place import connect, volume_of
from flows.cli.show import say, show_json


def add_to(app: typer.Typer) -> None:
    app.command(cls=NamedCommand)(release)
    app.command(cls=NamedCommand)(delete)


def release(
    run: RunName,
    volume: OfVolume = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Let a fork go of the checkpoint that it began from, once it has a newer complete one of its own."""
    from tasks.runs.deletion import release as let_go

    place = connect(cluster, owner)
    where = volume_of(place, run, volume)
    released = let_go(place, where, run)
    if output is Output.JSON:
        show_json({"run": run, "volume": where, **released.model_dump(mode="json")})
    elif released.released:
        say(f"Run {run} holds {released.source} no longer; it goes on from its own step {released.own['step']}.")
    else:
        say(f"Run {run} held nothing any more.")


def delete(
    run: RunName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    volume: OfVolume = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Delete a run's files: checkpoints, logs, metrics. Its records stay, for the runs that were forked from it.

    One that is live, or whose checkpoints a fork holds, is refused.
    """
    from blocks.clusters.size import format_size
    from tasks.runs.deletion import check_deletable
    from tasks.runs.deletion import delete as take_away

    place = connect(cluster, owner)
    where = volume_of(place, run, volume)
    check_deletable(place, where, run)
    question = f"Delete all checkpoints, logs and metrics of run {run} on volume {where}? The name stays taken."
    wanted = confirmed(question, yes=yes)
    deleted = take_away(place, where, run) if wanted else None
    if output is Output.JSON:
        freed = deleted.freed_bytes if deleted else 0
        show_json({"run": run, "volume": where, "deleted": wanted, "freed_bytes": freed})
    elif deleted is None:
        say("Nothing was deleted.")
    else:
        say(f"Run {run} is deleted, {format_size(deleted.freed_bytes)} are free again. Its name stays taken.")
