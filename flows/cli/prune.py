"""`slipway prune`: shows which checkpoints nobody needs, asks, and takes them away. Needs no Prefect."""

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.command import NamedCommand
from flows.cli.confirm import confirmed
from flows.cli.options import ClusterName, Output, OutputFormat, Owner
from flows.cli.place import connect
from flows.cli.show import say, show_json, show_table

if TYPE_CHECKING:
    from tasks.runs.prune import PruneReport


def add_to(app: typer.Typer) -> None:
    app.command(cls=NamedCommand)(prune)


def prune(
    volume: Annotated[str, typer.Argument(metavar="VOLUME", help="The volume to make room on.")],
    keep_last: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep so many of the newest complete checkpoints.")
    ] = None,
    keep_every: Annotated[
        int | None, typer.Option(min=1, metavar="K", help="Also keep those at multiples of so many steps.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="RUN", help="Only this run; what is said here beats its own policy.")
    ] = None,
    unreferenced: Annotated[
        bool, typer.Option("--unreferenced", help="Also delete models and datasets that no run refers to.")
    ] = False,
    grace: Annotated[float, typer.Option(min=0, metavar="MINUTES", help="Leave what changed so recently.")] = 15,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go and stop there.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Take away checkpoints that nobody needs.

    Runs with a [retention] policy in their config keep what it says, the others what is said here; without either,
    everything. The newest complete checkpoint of a run always stays, and so does what a fork holds.
    """
    from blocks.clusters.names import check_name
    from blocks.clusters.size import format_size
    from tasks.runs.prune import PruneRequest, plan_prune
    from tasks.runs.prune import prune as take_away

    place = connect(cluster, owner)
    request = PruneRequest(
        volume=check_name("volume", volume),
        run=check_name("run", run) if run else None,
        keep_last=keep_last,
        keep_every=keep_every,
        unreferenced=unreferenced,
        grace_seconds=grace * 60,
    )
    report = plan_prune(place, request)
    if output is Output.TABLE:
        _show(report, unreferenced)
    goes = not report.empty or (unreferenced and report.unreferenced)
    if (
        goes
        and not dry_run
        and confirmed(f"Delete these and free {format_size(report.freed_bytes)}, for good?", yes=yes)
    ):
        report = take_away(place, request)
        if output is Output.TABLE:
            _show_done(report)
    elif goes and output is Output.TABLE:
        say("Nothing was deleted.")
    if output is Output.JSON:
        show_json(report.model_dump(mode="json"))


def _show(report: "PruneReport", delete_unreferenced: bool) -> None:
    from blocks.clusters.size import format_size

    rows = [(run.run, d.path, format_size(d.freed), d.why) for run in report.runs for d in run.deleted]
    if report.leftovers["count"]:
        left = "left by a removal that was killed"
        rows.insert(0, ("", f"{report.leftovers['count']} in the trash", format_size(report.leftovers["freed"]), left))
    if delete_unreferenced:
        rows += [(f.kind, f.path, format_size(f.freed), f.why) for f in report.unreferenced]
    show_table(
        ("run", "goes", "frees", "why"), rows, empty="There is nothing to take away.", right=("frees",), wraps="why"
    )
    if rows:
        say(f"\n{format_size(report.freed_bytes)} are freed; bytes that other links keep are not counted.")
    elif why := _why_nothing(report):
        say(why)
    if report.unreferenced and not delete_unreferenced:
        freed = format_size(sum(f.freed for f in report.unreferenced))
        say(f"\nNo run refers to these; --unreferenced deletes them and frees {freed}:")
        for found in report.unreferenced:
            say(f"  {found.kind} {found.path}")


def _show_done(report: "PruneReport") -> None:
    from blocks.clusters.size import format_size

    left = [(run.run, d) for run in report.runs for d in run.deleted if not d.done]
    for name, item in left:
        say(f"{name}: {item.path} is {item.why}.")
    done = report.checkpoints - len(left) + sum(f.deleted for f in report.unreferenced)
    say(f"{done} {'is' if done == 1 else 'are'} gone, {format_size(report.freed_bytes)} are free again.")


def _why_nothing(report: "PruneReport") -> str:
    """What a person may have expected to go, and what keeps it."""
    young = sum(kept.why == "changed a moment ago" for run in report.runs for kept in run.kept)
    if young:
        what = "1 checkpoint stays because it" if young == 1 else f"{young} checkpoints stay because they"
        return f"{what} changed within the grace time (--grace MINUTES): --grace 0 takes that too."
    if any(kept.why == "no policy" for run in report.runs for kept in run.kept):
        return "No rule says what may go: say --keep-last N or --keep-every K, or give runs a [retention] policy."
    return ""
