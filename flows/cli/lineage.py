"""`slipway lineage`: the tree of runs that continued from one another. Needs no Prefect."""

import typer

from flows.cli.command import NamedCommand
from flows.cli.options import ClusterName, OfVolume, Output, OutputFormat, Owner, RunName
from flows.cli.place import connect, volume_of
from flows.cli.show import show_json, show_table


def add_to(app: typer.Typer) -> None:
    app.command(cls=NamedCommand)(lineage)


def lineage(
    run: RunName,
    volume: OfVolume = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Show what a run descends from, and every fork of that, also of runs that were deleted."""
    from tasks.reports.family import family, tree

    place = connect(cluster, owner)
    members = family(place, volume_of(place, run, volume), run)
    if output is Output.JSON:
        show_json([member.model_dump(mode="json") for member in members])
        return
    show_table(
        ("run", "continued", "what became of it", ""),
        [(lead, m.origin, m.outcome, "<" if m.run == run else "") for lead, m in tree(members)],
        empty="",
    )
