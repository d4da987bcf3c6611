"""`slipway stage`: a model, weights or a dataset onto a volume, verified and pinned."""

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.command import NamedCommand
from flows.cli.options import ClusterName, HubName, Output, OutputFormat, Owner, VolumeSize
from flows.cli.show import show_facts, show_json, waiting

if TYPE_CHECKING:
    from blocks.clusters.port import Cluster

app = typer.Typer(help="Bring a model, weights or a dataset onto a volume, once.", no_args_is_help=True)
Onto = Annotated[str, typer.Option("--volume", metavar="NAME", help="The volume; created if it is missing.")]


@app.command(cls=NamedCommand)
def model(
    name: Annotated[str, typer.Argument(metavar="ORG/NAME[@REVISION]", help="A branch, a tag or a commit.")],
    volume: Onto,
    allow: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Only these files, such as '*.json'; may be repeated.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="PATTERN", help="Not these files.")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every byte of what is staged again, and replace what is bad.")
    ] = False,
    volume_size: VolumeSize = None,
    hub: HubName = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Stage a model of a Hub, every byte verified; what is staged is not fetched again."""
    from blocks.clusters.size import format_size
    from blocks.settings import read_settings
    from flows.cli.launch import cluster_block, hub_block, run_plain_flow
    from tasks.stages.resolve import resolve
    from tasks.stages.source import hub_model

    settings = read_settings()
    place, access = settings.cluster(cluster, owner), settings.hub(hub)
    ref = hub_model(name, allow or (), ignore or ())
    with waiting(f"looking at {name}"):  # for its refusals, before anything is made
        resolve(place, access, _existing(place, volume, volume_size), ref)

    def flow() -> None:
        from flows.stage import stage

        block = cluster_block(settings, cluster, owner)
        stage(
            cluster=block,
            hub=hub_block(access),
            volume=volume,
            model=name,
            allow=list(ref.allow),
            ignore=list(ref.ignore),
            verify=verify,
            volume_size=(volume_size or "").strip(),
        )

    run_plain_flow(settings, flow)
    staged = resolve(place, access, volume, ref)
    if output is Output.JSON:
        facts = staged.model_dump(mode="json", exclude={"ref"})
        show_json({"volume": volume, "repo": ref.repo, "revision": ref.revision, **facts})
        return
    size = f"{staged.files} files, {format_size(staged.bytes)}"
    show_facts({"model": ref.repo, "commit": staged.commit, "path": f"/volume/{staged.path}", "size": size})


@app.command(cls=NamedCommand)
def dataset(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name on the volume: datasets/NAME.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder, s3://BUCKET/PREFIX, hf://datasets/ORG/NAME@REVISION, or a folder on it: /volume/PATH.",
        ),
    ],
    volume: Onto,
    version: Annotated[str | None, typer.Option(metavar="V", help="[default: made from its content]")] = None,
    volume_size: VolumeSize = None,
    hub: HubName = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Stage a dataset as datasets/NAME/VERSION; a version never changes."""
    from blocks.clusters.size import format_size
    from blocks.settings import read_settings
    from flows.cli.config import dataset_request
    from flows.cli.launch import cluster_block, hub_block, run_plain_flow
    from tasks.plans.content import describe
    from tasks.plans.inputs import look_at_source
    from tasks.stages.resolve import resolve
    from tasks.stages.source import hub_dataset

    settings = read_settings()
    place, access = settings.cluster(cluster, owner), settings.hub(hub)
    request = dataset_request(name, source, version, settings)
    there = _existing(place, volume, volume_size)
    with waiting(f"looking at {source}"):
        if ref := hub_dataset(request.source):
            resolve(place, access, there, ref)
        look_at_source(place, there, request)

    def flow() -> None:
        from flows.stage import stage

        block = cluster_block(settings, cluster, owner)
        stage(
            cluster=block,
            hub=hub_block(access),
            volume=volume,
            dataset=request,
            volume_size=(volume_size or "").strip(),
        )

    run_plain_flow(settings, flow)
    staged = place.call(volume, "datasets.state", {"name": name, "version": version})
    if output is Output.JSON:
        show_json({"volume": volume, "name": name, **staged})
        return
    size = f"{staged['files']} file{'s' if staged['files'] != 1 else ''}, {format_size(staged['bytes'])}"
    found = describe(staged["content"]) if staged["content"] else ""
    facts = {"dataset": name, "version": staged["version"], "path": f"/volume/{staged['path']}"}
    show_facts({**facts, "size": size, "content": found})


@app.command(cls=NamedCommand)
def weights(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Their name on the volume: models/NAME.")],
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A folder, s3://BUCKET/PREFIX, or a folder on it: /volume/PATH.")
    ],
    volume: Onto,
    volume_size: VolumeSize = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Stage weights of your own as models/NAME, proven complete; a config names them /volume/models/NAME."""
    from blocks.clusters.size import format_size
    from blocks.settings import read_settings
    from flows.cli.config import weights_request
    from flows.cli.launch import cluster_block, hub_block, run_plain_flow
    from tasks.plans.inputs import look_at_source

    settings = read_settings()
    place, request = settings.cluster(cluster, owner), weights_request(name, source, settings)
    with waiting(f"looking at {source}"):
        look_at_source(place, _existing(place, volume, volume_size), request)

    def flow() -> None:
        from flows.stage import stage

        block, access = cluster_block(settings, cluster, owner), settings.hub(None)
        stage(
            cluster=block,
            hub=hub_block(access),
            volume=volume,
            weights=request,
            volume_size=(volume_size or "").strip(),
        )

    run_plain_flow(settings, flow)
    staged = place.call(volume, "weights.state", {"name": name})
    if output is Output.JSON:
        show_json({"volume": volume, "name": name, **staged})
        return
    size = f"{staged['files']} files, {format_size(staged['bytes'])}"
    show_facts({"weights": name, "path": f"/volume/{staged['path']}", "what": staged["why"], "size": size})


def _existing(cluster: "Cluster", volume: str, size: str | None) -> str | None:
    """The volume if it is there.

    Raises:
        UsageError: a volume can not be called so, or have that size.
    """
    from blocks.clusters.errors import NotFoundError
    from blocks.clusters.names import check_name
    from blocks.clusters.size import parse_size

    check_name("volume", volume)
    if size:
        parse_size(size)
    try:
        return cluster.volumes.get(volume).name
    except NotFoundError:
        return None
