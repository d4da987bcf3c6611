"""`slipway models` and `slipway datasets`: what is staged, who uses it, how others read it. Needs no Prefect."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.confirm import confirmed
from flows.cli.options import ClusterName, Output, OutputFormat, Owner
from flows.cli.place import connect, usable_volumes
from flows.cli.show import ago, say, show_json, show_table, some_of

if TYPE_CHECKING:
    from blocks.clusters.port import Cluster

models = typer.Typer(help="Models that are staged: list, mount, remove.", invoke_without_command=True)
datasets = typer.Typer(help="Datasets that are staged: list, remove.", invoke_without_command=True)

OnVolume = Annotated[
    str | None, typer.Option("--volume", metavar="NAME", help="Only this one. [default: all, or the one that has it]")
]
Staged = Annotated[str, typer.Argument(metavar="ORG/NAME[@REV]", help="A commit, its first digits, or a branch.")]
_OWN = "/volume/models/"
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@models.callback()
def all_models(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_models()


@models.command("list")
def list_models(
    volume: OnVolume = None, cluster: ClusterName = None, owner: Owner = None, output: OutputFormat = Output.TABLE
) -> None:
    """Show the snapshots that are staged, and what is in models/: commits, sizes, and the runs that use them."""
    from blocks.clusters.size import format_size

    place = connect(cluster, owner)
    snapshots, own = _listed(place, volume, "snapshots"), _listed(place, volume, "weights")
    unpinned: dict[str, Any] = {"repo": None, "commit": None, "refs": [], "partial": False, "lacks": 0}
    rows = snapshots + [unpinned | row for row in own]
    if output is Output.JSON:
        show_json(rows)
        return
    show_table(
        ("model", "commit", "refs", "volume", "size", "shared", "", "used by", "last used"),
        [
            (
                *(row["repo"], row["commit"][:12], ", ".join(row["refs"]), row["volume"], format_size(row["bytes"])),
                *(format_size(row["shared_bytes"]), f"partial: lacks {row['lacks']}" if row["partial"] else ""),
                *(some_of(row["used_by"]), _when(row["last_used"])),
            )
            for row in snapshots
        ]
        + [
            (
                *(f"/volume/{row['path']}", "", "", row["volume"], format_size(row["bytes"])),
                *(format_size(row["shared_bytes"]), "" if row["staged"] else "not usable"),
                *(some_of(row["used_by"]), _when(row["last_used"])),
            )
            for row in own
        ],
        empty="No model is staged. Stage one: slipway stage model ORG/NAME --volume NAME",
        right=("size", "shared"),
        wraps="used by",
    )


@models.command()
def mount(
    model: Staged,
    volume: OnVolume = None,
    pod: Annotated[bool, typer.Option("--pod", help="For a pod, also where the volume is a local directory.")] = False,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Print what a notebook or a service needs to read a staged model: for a pod as YAML, else for a shell."""
    from tasks.stages.mount import mount_of

    place = connect(cluster, owner)
    where, found = _find(place, model, volume)
    wanted = mount_of(where, found, pod=pod)
    if output is Output.JSON:
        show_json(wanted.model_dump())
    else:
        typer.echo(wanted.text(), nl=False)


@models.command("remove")
def remove_model(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="ORG/NAME[@REV] of what is staged, or /volume/models/NAME.")
    ],
    volume: OnVolume = None,
    yes: Yes = False,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Remove a staged model. Refused while a live or planned run uses it; files that other snapshots share stay."""
    place = connect(cluster, owner)
    if model.startswith(_OWN):
        name = model.removeprefix(_OWN).rstrip("/")
        where = _only([row["volume"] for row in _listed(place, volume, "weights") if row["name"] == name], model)
        _remove(place, where, model, "weights.remove", {"name": name}, yes, output)
        return
    where, found = _find(place, model, volume)
    what = f"{found['repo']}@{found['commit'][:12]}"
    which = {key: found[key] for key in ("repo_type", "repo", "commit")}
    _remove(place, where, what, "snapshots.remove", which, yes, output)


@datasets.callback()
def all_datasets(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_datasets()


@datasets.command("list")
def list_datasets(
    volume: OnVolume = None, cluster: ClusterName = None, owner: Owner = None, output: OutputFormat = Output.TABLE
) -> None:
    """Show the dataset versions that are staged: where they came from, sizes, and the runs that use them."""
    from blocks.clusters.size import format_size

    rows = _listed(connect(cluster, owner), volume, "datasets")
    if output is Output.JSON:
        show_json(rows)
        return
    show_table(
        ("dataset", "version", "volume", "size", "files", "from", "used by", "last used"),
        [
            (
                *(row["name"], row["version"], row["volume"], format_size(row["bytes"]), str(row["files"])),
                *(_origin(row["source"]), some_of(row["used_by"]), _when(row["last_used"])),
            )
            for row in rows
        ],
        empty="No dataset is staged. Stage one: slipway stage dataset NAME SOURCE --volume NAME",
        right=("size", "files"),
        wraps="used by",
    )


@datasets.command("remove")
def remove_dataset(
    dataset: Annotated[str, typer.Argument(metavar="NAME/VERSION")],
    volume: OnVolume = None,
    yes: Yes = False,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Remove a version of a dataset. Refused while a live or planned run uses it."""
    from blocks.clusters.errors import UsageError

    name, _, version = dataset.partition("/")
    if not name or not version:
        raise UsageError(f"{dataset!r} names no version of a dataset.", "Write NAME/VERSION.")
    place = connect(cluster, owner)
    rows = _listed(place, volume, "datasets")
    where = _only([row["volume"] for row in rows if (row["name"], row["version"]) == (name, version)], dataset)
    _remove(place, where, dataset, "datasets.remove", {"name": name, "version": version}, yes, output)


def _only(volumes: list[str], what: str) -> str:
    """The one volume that has something. Raises: NotFoundError, ConflictError."""
    from blocks.clusters.errors import ConflictError, NotFoundError

    if not volumes:
        raise NotFoundError(f"{what} is on no volume.", "`slipway models` and `slipway datasets` list what is there.")
    if len(volumes) > 1:
        raise ConflictError(f"The volumes {' and '.join(volumes)} each have {what}.", "Say which with --volume.")
    return volumes[0]


def _listed(place: "Cluster", volume: str | None, kind: str) -> list[dict[str, Any]]:
    volumes = [volume] if volume else usable_volumes(place)
    return [{**row, "volume": name} for name in volumes for row in place.call(name, f"{kind}.list", {})[kind]]


def _find(place: "Cluster", model: str, volume: str | None) -> tuple[str, dict[str, Any]]:
    """The volume that has a snapshot, and what is known of it.

    Raises:
        ProgramError: a volume was named, and it has none or several of that name.
        NotFoundError, ConflictError: none or several of the volumes have it.
    """
    from blocks.clusters.errors import ConflictError, NotFoundError, ProgramError
    from tasks.pod.errors import NotThereError

    repo, _, revision = model.partition("@")
    asked = {"repo": repo, "revision": revision or None}
    if volume:
        return volume, place.call(volume, "snapshots.find", asked)
    found = {}
    for name in usable_volumes(place):
        try:
            found[name] = place.call(name, "snapshots.find", asked)
        except ProgramError as error:
            if error.kind != NotThereError.__name__:
                raise
    if len(found) > 1:
        raise ConflictError(f"The volumes {' and '.join(found)} each have {model}.", "Say which with --volume.")
    if not found:
        raise NotFoundError(f"{model} is staged on no volume.", "`slipway models` lists what is.")
    return next(iter(found.items()))


def _remove(
    place: "Cluster", volume: str, what: str, program: str, which: dict[str, Any], yes: bool, output: Output
) -> None:
    from blocks.clusters.size import format_size
    from tasks.stages.remove import ended_runs

    freed = 0
    if wanted := confirmed(f"Remove {what} from volume {volume}?", yes=yes):
        freed = place.call(volume, program, which | ended_runs(place, volume), writable=True)["freed"]
    if output is Output.JSON:
        show_json({"removed": wanted, "volume": volume, **which, "freed_bytes": freed})
    elif wanted:
        say(f"Removed {what} from volume {volume}: {format_size(freed)} are free again.")
    else:
        say("Nothing was removed.")


def _origin(source: dict[str, Any]) -> str:
    match source["kind"]:
        case "s3":
            return f"s3://{source['bucket']}/{source['prefix']}"
        case "hub":
            return f"hf://datasets/{source['repo']}@{source['commit'][:12]}"
        case "volume":
            return f"/volume/{source['path']}"
    return str(source["path"])


def _when(seconds: float | None) -> str:
    return ago(datetime.fromtimestamp(seconds, UTC)) if seconds else "never"
