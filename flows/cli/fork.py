"""`slipway fork`: a new run that continues from a completed step of another."""

import re
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flows.cli.command import NamedCommand
from flows.cli.options import (
    Changes,
    ClusterName,
    DryRun,
    HubName,
    NewRun,
    NoWait,
    OfVolume,
    Output,
    OutputFormat,
    Owner,
    Placement,
    RunName,
    Trust,
    WeightsAsParentFrom,
    WeightsFallback,
    WeightsSha256,
)

if TYPE_CHECKING:
    from blocks.clusters.port import Cluster
    from tasks.runs.request import WeightsRequest
    from tasks.training import RunResult


def add_to(app: typer.Typer) -> None:
    app.command(cls=NamedCommand)(fork)


def fork(
    run: RunName,
    volume: OfVolume = None,
    step: Annotated[
        str, typer.Option(metavar="latest|N", help="A completed step; latest is the newest completed one.")
    ] = "latest",
    changes: Changes = None,
    max_steps: Annotated[
        int | None, typer.Option(metavar="N", help="Train up to here, counted from the start of the original run.")
    ] = None,
    name: NewRun = None,
    hold: Annotated[
        Literal["link", "copy"],
        typer.Option(help="Link costs no space; copy also survives that the parent saves that step again."),
    ] = "link",
    weights: WeightsAsParentFrom = None,
    weights_fallback: WeightsFallback = False,
    weights_sha256: WeightsSha256 = False,
    hub: HubName = None,
    best: Annotated[bool, typer.Option("--best", help="RUN is a sweep: continue its best run.")] = False,
    trust: Trust = None,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Continue a run from a completed checkpoint.

    The new run has the config of the old one, with some changes, and holds the checkpoint that it starts from.
    """
    from blocks.settings import read_settings
    from flows.cli.config import new_name, read_changes
    from flows.cli.launch import cluster_block, hub_block, run_flow
    from flows.cli.place import volume_of
    from flows.cli.plan import check_names, plan
    from flows.cli.sweeps import best_run
    from tasks.runs.ask import ask_fork

    settings = read_settings()
    place, access = settings.cluster(cluster, owner), settings.hub(hub)
    keys, at = read_changes(changes, max_steps=max_steps), _step(step)
    child, vouched = name if name is not None else new_name("fork"), tuple(trust or ())
    if best:
        volume, run = best_run(place, run, volume)
    where = volume_of(place, run, volume)
    check_names(child, where)
    reads = _reads(place, where, run, weights, fallback=weights_fallback, sha256=weights_sha256)
    request = ask_fork(place, where, run, child, step=at, changes=keys, hold=hold, weights=reads, trust=vouched)
    plan(place, access, request, output, only=dry_run)
    if dry_run:
        return

    def flow() -> "RunResult":
        from flows.fork import fork as fork_flow

        return fork_flow(
            cluster=cluster_block(settings, cluster, owner),
            hub=hub_block(access),
            volume=where,
            run=run,
            step=step,
            set=keys,
            name=child,
            hold=hold,
            weights=reads,
            trust=list(vouched),
            wait=not no_wait,
        )

    run_flow(settings, place, where, child, flow, output)


def _reads(
    cluster: "Cluster", volume: str, parent: str, placement: Placement | None, *, fallback: bool, sha256: bool
) -> "WeightsRequest":
    """Where a fork reads its weights: as its parent does, but for what was said."""
    from tasks.runs.launch import read_run
    from tasks.runs.request import WeightsRequest

    if placement is not None:
        return WeightsRequest(placement=placement.value, fallback=fallback, sha256=sha256)
    theirs = read_run(cluster, volume, parent).plan.request.weights
    return theirs.model_copy(update={"fallback": theirs.fallback or fallback, "sha256": theirs.sha256 or sha256})


def _step(text: str) -> int | Literal["latest"]:
    from blocks.clusters.errors import UsageError

    if text == "latest":
        return "latest"
    if not re.fullmatch(r"[1-9][0-9]{0,17}", text):
        raise UsageError(f"{text!r} is no step.", "Write a number above zero, or latest.")
    return int(text)
