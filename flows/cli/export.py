"""`slipway export`: a run or one of its checkpoints to a bucket. Needs no Prefect."""

from typing import Annotated, Any

import typer

from flows.cli.options import ClusterName, OfVolume, Output, OutputFormat, Owner
from flows.cli.place import volume_of
from flows.cli.show import say, show_facts, show_json


def add_to(app: typer.Typer) -> None:
    app.command()(export)


def export(
    what: Annotated[str, typer.Argument(metavar="RUN[@STEP]", help="A run, or one of its completed steps, or latest.")],
    target: Annotated[str, typer.Argument(metavar="s3://BUCKET/PREFIX", help="A bucket of slipway.toml, or of AWS.")],
    volume: OfVolume = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Upload a run, or a completed checkpoint, to S3. Its manifest is written last; asking again goes on."""
    from blocks.clusters.errors import UsageError
    from blocks.clusters.size import format_size
    from blocks.settings import read_settings
    from tasks.runs.export import export as export_run
    from tasks.stages.source import bucket_of

    run, _, step = what.partition("@")
    named = bucket_of(target)
    if named is None or not named[1].strip("/"):
        raise UsageError(f"{target!r} is no place in a bucket.", "Write s3://BUCKET/PREFIX.")
    if step and step != "latest" and not step.isdigit():
        raise UsageError(f"{step!r} is no step.", "Write a number, or latest.")
    settings = read_settings()
    place = settings.cluster(cluster, owner)
    where = volume_of(place, run, volume)
    chosen = (int(step) if step.isdigit() else step) if step else None
    done = export_run(place, where, run, chosen, settings.bucket(named[0]), named[1].strip("/"), _narrate)
    if output is Output.JSON:
        show_json({"run": run, "volume": where, "target": target, **done})
        return
    size = f"{done['files']} files, {format_size(done['bytes'])}, of which {format_size(done['sent_bytes'])} were sent"
    show_facts({"exported": what, "to": target, "size": size, "manifest": f"s3://{named[0]}/{done['manifest']}"})


def _narrate(note: dict[str, Any]) -> None:
    from blocks.clusters.size import format_size

    if total := note.get("bytes_total"):
        say(f"{format_size(note['bytes_done'])} of {format_size(total)} sent")
