"""`slipway export-weights`: a completed checkpoint as Hugging Face weights on the volume. Needs no Prefect."""

from typing import Annotated

import typer

from flows.cli.command import NamedCommand
from flows.cli.options import ClusterName, OfVolume, Output, OutputFormat, Owner
from flows.cli.place import connect, volume_of
from flows.cli.show import say, show_facts, show_json


def add_to(app: typer.Typer) -> None:
    app.command("export-weights", cls=NamedCommand)(export_weights)


def export_weights(
    what: Annotated[
        str, typer.Argument(metavar="RUN[@STEP]", help="A run, and one of its completed steps. [default: the latest]")
    ],
    to: Annotated[
        str | None, typer.Option("--to", metavar="NAME", help="Directory in models/. [default: RUN-step-STEP]")
    ] = None,
    volume: OfVolume = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Put a checkpoint's weights into models/NAME, in Hugging Face format, to be trained or served from.

    Where its format has no such weights in it, the tool that makes some is named.
    """
    from blocks.clusters.errors import UsageError
    from blocks.clusters.size import format_size
    from tasks.runs.export_weights import export_weights as export

    run, _, step = what.partition("@")
    if step and step != "latest" and not step.isdigit():
        raise UsageError(f"{step!r} is no step.", "Write a number, or latest.")
    place = connect(cluster, owner)
    where = volume_of(place, run, volume)
    done = export(
        place, where, run, int(step) if step.isdigit() else "latest", to.removeprefix("models/") if to else None
    )
    if output is Output.JSON:
        show_json({"volume": where, **done})
        return
    show_facts(
        {
            "weights of": f"step {done['step']} of {run}",
            "model": f"/volume/{done['path']}",
            "what": done["why"],
            "size": f"{done['files']} files, {format_size(done['bytes'])}",
        }
    )
    if not done["created"]:
        say("They were there already.")
