"""The main job, end to end: provision, stage, fine-tune, fork from the latest completed step, report."""

from typing import cast

from prefect import flow

from blocks.cluster import ClusterBlock
from blocks.hub import HuggingFaceHub
from blocks.trainer import Trainer
from flows.cancellation import stop_jobs
from flows.naming import flow_run_label, this_run
from flows.parameters import NO_CHANGES, Changes, Config, ModelOrConfigs, RunOrMade, SizeOrDefault, Volume
from flows.slots import skipped, this_flow_run
from flows.sources import with_bucket
from flows.train import train
from tasks.reporting import report
from tasks.runs.ask import ask_fork, ask_run
from tasks.runs.request import IN_PLACE, WeightsRequest
from tasks.stages.source import DatasetRequest
from tasks.training import RunResult


@flow(name="pipeline", flow_run_name=flow_run_label, on_cancellation=[stop_jobs])
def pipeline(
    *,
    name: RunOrMade = "",
    config: Config,
    set: Changes = NO_CHANGES,  # noqa: A002 - the word that people type
    model: ModelOrConfigs = "",
    fork_set: Changes,
    dataset: DatasetRequest | None = None,
    weights: WeightsRequest = IN_PLACE,
    volume: Volume,
    volume_size: SizeOrDefault = "",
    trainer: Trainer,
    cluster: ClusterBlock,
    hub: HuggingFaceHub,
) -> list[RunResult]:
    """Provision a volume, stage what a fine-tune needs, train it, and continue from its latest completed step.

    Args:
        name: What the training run is called on its volume, such as "nightly": lower-case letters, digits and hyphens.
            The follow-up is called the same with "-fork" at its end. Left empty, names are made. (Prefect's own "Run
            Name" above is only a label, and is replaced.)
        config: The trainer's own config file, as text. Drag the corner of the field to see all of it.
        set: Changes to the config, so that the text above need not be touched: dotted keys and their values, such as
            {"max_steps": 100, "optim.lr": 0.001}.
        model: The base model, in place of the one that the config names: one that is staged, or another one, such as
            org/name@revision or /volume/models/NAME. Left empty: the config's.
        fork_set: What the follow-up run changes, in the same way. max_steps counts from the start of the first run, so
            it has to be above the config's.
        dataset: The data to train on, staged on the volume first unless it is there. None: the config names a dataset
            that is staged already.
        weights: Where the weights of the base model are read from: in place on the volume, or from a copy that is made
            on the node before training starts.
        volume: The storage that keeps weights, data and runs, such as "research"; created if it is missing.
        volume_size: Size of the volume if it has to be created, such as 500Gi or 2Ti (10Ti at most). An existing one is
            left as it is. Where none is given, the config's, else 1Ti.
        trainer: What to train with: the program, its image, and the CPUs and GPUs that it gets.
        cluster: Where the volume is and the jobs run.
        hub: Where the model is downloaded from, if the config names one on a Hub.
    """
    if (left_out := skipped(this_flow_run(), "latest", "skip")) is not None:
        return cast(list[RunResult], left_out)  # a schedule's, which nobody waits for
    place, access = cluster.connect(), hub.access()
    first = ask_run(
        this_run(name, "finetune"),
        config,
        trainer.settings(),
        changes=set,
        model=model,
        volume=volume,
        volume_size=volume_size,
        dataset=with_bucket(dataset),
        weights=weights,
    )
    parent = train(place, access, first)
    follow_up = this_run(f"{name}-fork" if name else None, "fork")
    child = train(place, access, ask_fork(place, volume, parent.run, follow_up, changes=fork_set))
    report(place, volume, [parent.run, child.run])
    return [parent, child]
