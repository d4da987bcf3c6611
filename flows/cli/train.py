"""`slipway train`: plan a run, launch it and follow it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.command import NamedCommand
from flows.cli.options import (
    BaseModel,
    Changes,
    ClusterName,
    DryRun,
    HubName,
    NewRun,
    NoWait,
    Output,
    OutputFormat,
    Owner,
    Placement,
    Trust,
    VolumeSize,
    WeightsFallback,
    WeightsFrom,
    WeightsSha256,
)

if TYPE_CHECKING:
    from tasks.training import RunResult


def add_to(app: typer.Typer) -> None:
    app.command(cls=NamedCommand)(train)


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The trainer's own config.")],
    volume: Annotated[
        str | None, typer.Option(metavar="NAME", help="Created if missing. [default: the one that the config names]")
    ] = None,
    volume_size: VolumeSize = None,
    name: NewRun = None,
    trainer: Annotated[
        str | None, typer.Option(metavar="NAME", help="A trainer of slipway.toml. [default: the default one]")
    ] = None,
    hub: HubName = None,
    changes: Changes = None,
    model: BaseModel = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=SOURCE",
            help="Stage a dataset first: a folder, s3://BUCKET/PREFIX, hf://datasets/ORG/NAME@REVISION.",
        ),
    ] = None,
    weights: WeightsFrom = Placement.VOLUME,
    weights_fallback: WeightsFallback = False,
    weights_sha256: WeightsSha256 = False,
    trust: Trust = None,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Train a model from a config.

    Plans first, stages what is missing, launches the run and follows it to its end.

    The same name and request again continue the run: adopt it if it is live, resume it if it failed.
    """
    from blocks.settings import read_settings
    from flows.cli.config import new_name, read_changes, read_config, read_dataset
    from flows.cli.launch import cluster_block, hub_block, run_flow, trainer_block
    from flows.cli.plan import plan
    from tasks.runs.ask import ask_run
    from tasks.runs.request import WeightsRequest

    settings = read_settings()
    place, access, how = settings.cluster(cluster, owner), settings.hub(hub), settings.trainer(trainer)
    text, keys, wanted = read_config(config), read_changes(changes), read_dataset(dataset, settings)
    run, vouched = name if name is not None else new_name("finetune"), tuple(trust or ())
    reads = WeightsRequest(placement=weights.value, fallback=weights_fallback, sha256=weights_sha256)
    request = ask_run(
        run,
        text,
        how,
        changes=keys,
        model=model,
        volume=volume,
        volume_size=volume_size,
        dataset=wanted,
        weights=reads,
        trust=vouched,
    )
    plan(place, access, request, output, only=dry_run)
    if dry_run:
        return

    def flow() -> "RunResult":
        from flows.finetune import finetune

        return finetune(
            cluster=cluster_block(settings, cluster, owner),
            hub=hub_block(access),
            trainer=trainer_block(how),
            config=text,
            volume=request.volume,
            volume_size=(volume_size or "").strip(),
            name=run,
            set=keys,
            model=model,
            dataset=wanted,
            weights=reads,
            trust=list(vouched),
            wait=not no_wait,
        )

    run_flow(settings, place, request.volume, run, flow, output)
