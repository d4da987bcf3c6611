"""Fork: a new run that continues from a completed step of another."""

from typing import Any, cast

from prefect import State, flow
from prefect.states import Completed

from blocks.cluster import ClusterBlock
from blocks.clusters.port import Cluster
from blocks.hub import HuggingFaceHub
from flows.cancellation import stop_jobs
from flows.naming import flow_run_label, fork_name, this_run
from flows.parameters import NO_CHANGES, NOTHING, Changes, Hold, Run, RunOrMade, Step, Trust, Volume, step_of
from flows.train import train
from tasks.runs.ask import ask_fork
from tasks.runs.launch import read_run
from tasks.runs.request import WeightsRequest
from tasks.training import RunResult


@flow(name="fork", flow_run_name=flow_run_label, on_cancellation=[stop_jobs])
def fork(
    *,
    run: Run,
    step: Step = "latest",
    set: Changes = NO_CHANGES,  # noqa: A002 - the word that people type
    name: RunOrMade = "",
    volume: Volume,
    hold: Hold = "link",
    weights: WeightsRequest | None = None,
    cluster: ClusterBlock,
    hub: HuggingFaceHub,
    trust: Trust = NOTHING,
    wait: bool = True,
    trigger: RunOrMade = "",
) -> RunResult:
    """Continue training from a completed checkpoint of another run, with its config and some changes.

    Args:
        run: The run to continue from: its name on the volume. It may still be training.
        step: "latest" for its newest completed checkpoint, or a step that has one, such as 60.
        set: What the new run changes in the config of the old one: dotted keys and their values, such as
            {"max_steps": 200, "optim.lr": 0.0005}. max_steps counts from the start of the original training, so it has
            to be above the step that is continued from.
        name: What the new run is called: lower-case letters, digits and hyphens. Left empty, a name is made.
        volume: The storage that both runs are on.
        hold: How the checkpoint is kept. "link" costs no space and outlives its deletion by the old run; "copy"
            also outlives that the old run saves the same step again.
        weights: Where the weights of the base model are read from: in place on the volume, or from a copy that is made
            on the node before training starts. None: from where the old run reads them.
        cluster: Where the volume is and the job runs.
        hub: Where the base model is downloaded from, should it no longer be on the volume.
        trust: Checkpoints that can not be proven complete and are to be taken all the same, such as
            "checkpoints/step_40". Only needed where a run was refused with that remedy.
        wait: On: follow the training to its end and report every completed checkpoint. Off: end as soon as its job is
            submitted.
        trigger: Only for automations: the automation's name. The new run is called after the run, the step and it, so
            that an event that comes twice is one fork; and what a trigger has forked, it does not fork again.
    """
    place = cluster.connect()
    if trigger and forked_by(place, volume, run, trigger):
        skipped: State[Any] = Completed(
            name="Skipped", message=f"{trigger!r} made run {run} itself: it is not forked again."
        )
        return cast(RunResult, skipped)  # only a trigger comes here, and nobody waits for its result
    called = fork_name(name, run, step_of(step), trigger)
    request = ask_fork(
        place,
        volume,
        run,
        this_run(called, "fork"),
        step=step_of(step),
        changes=set,
        hold=hold,
        weights=weights,
        trust=tuple(trust),
    )
    return train(place, hub.access(), request, wait=wait)


def forked_by(cluster: Cluster, volume: str, run: str, trigger: str) -> bool:
    """Whether a run is one that this trigger has forked: else each checkpoint of a fork would make another one."""
    parent = read_run(cluster, volume, run).plan.request.fork_of
    return parent is not None and fork_name(None, parent.run, parent.step, trigger) == run
