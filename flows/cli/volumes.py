"""`slipway volumes`: create, list, grow, delete. Files on them are in `files`."""

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.command import NamedCommand
from flows.cli.confirm import confirmed
from flows.cli.options import ClusterName, Output, OutputFormat, Owner, VolumeName
from flows.cli.place import connect
from flows.cli.show import ago, say, show_json, show_table, waiting

if TYPE_CHECKING:
    from blocks.clusters.port import Cluster
    from blocks.clusters.volume import Volume

app = typer.Typer(help="Named storage that outlives runs.", no_args_is_help=True)


@app.command(cls=NamedCommand)
def create(
    name: VolumeName,
    size: Annotated[str, typer.Option(metavar="SIZE", help="Such as 500Gi or 2Ti; 10Ti at most.")] = "1Ti",
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Create a volume and wait until it can be used."""
    from blocks.clusters.size import parse_size
    from tasks.stages.volume import ensure_volume

    place = connect(cluster, owner)
    place.volumes.create(name, parse_size(size))
    with waiting(f"waiting for volume {name} to be ready"):
        volume, _ = ensure_volume(place, name, None)
    _show([volume], output, one=True)


@app.command("list")
def list_volumes(cluster: ClusterName = None, owner: Owner = None, output: OutputFormat = Output.TABLE) -> None:
    """Show all volumes, and who mounts them."""
    _show(connect(cluster, owner).volumes.list(), output)


@app.command(cls=NamedCommand)
def grow(
    name: VolumeName,
    size: Annotated[str, typer.Option(metavar="SIZE", help="The new size: more than now, 10Ti at most.")],
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Give a volume more room, in place. A volume never shrinks."""
    from blocks.clusters.size import parse_size

    place = connect(cluster, owner)
    _show([place.volumes.grow(name, parse_size(size))], output, one=True)


app.command("resize", cls=NamedCommand, help="The same as grow.")(grow)


@app.command(cls=NamedCommand)
def delete(
    name: VolumeName,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask. A volume in use is refused all the same.")
    ] = False,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Delete a volume and everything on it, the outputs of all its runs included."""
    from blocks.clusters.errors import InUseError

    place = connect(cluster, owner)
    volume = place.volumes.get(name)
    if volume.used_by:
        raise InUseError(
            f"The volume {name!r} is in use by {', '.join(volume.used_by)}.", "Stop that first, or wait for its end."
        )
    if wanted := yes or confirmed(_question(place, volume), yes=False):
        place.volumes.delete(name)
    if output is Output.JSON:
        show_json({"name": name, "deleted": wanted})
    else:
        say(f"Volume {name} is deleted." if wanted else "Nothing was deleted.")


def _question(cluster: "Cluster", volume: "Volume") -> str:
    from blocks.clusters.size import format_size
    from tasks.errors import EXPECTED

    try:
        used = format_size(cluster.call(volume.name, "volume.usage", {})["used_bytes"])
    except EXPECTED:  # one whose delete was killed half way
        used = "all"
    return f"Delete volume {volume.name} of {volume.owner} on cluster {volume.cluster} and the {used} on it, for good?"


def _show(volumes: "list[Volume]", output: Output, *, one: bool = False) -> None:
    if output is Output.JSON:
        shown = [volume.model_dump(mode="json") for volume in volumes]
        show_json(shown[0] if one else shown)
        return
    show_table(
        ("name", "owner", "cluster", "size", "status", "mounted by", "created"),
        [
            (
                *(volume.name, volume.owner, volume.cluster, _size(volume)),
                *(_status(volume), ", ".join(volume.used_by) or "-", ago(volume.created_at)),
            )
            for volume in volumes
        ],
        empty="There are no volumes. Create one: slipway volumes create NAME",
        right=("size",),
        wraps="mounted by",
    )


def _size(volume: "Volume") -> str:
    from blocks.clusters.size import format_size

    asked = format_size(volume.size)
    if volume.actual_size in (None, volume.size):
        return asked
    assert volume.actual_size is not None
    return f"{asked} ({format_size(volume.actual_size)} there)"


def _status(volume: "Volume") -> str:
    return f"{volume.status}: {volume.reason}" if volume.reason else volume.status.value
