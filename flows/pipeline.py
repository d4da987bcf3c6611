"""The main job, end to end: provision, stage, fine-tune, fork from the latest completed step, report."""

from typing import Any

from prefect import flow

from blocks.hub import HuggingFaceHub
from blocks.local_cluster import LocalCluster
from blocks.trainer import Trainer
from flows.cancellation import stop_jobs
from flows.naming import flow_run_label, this_run
from flows.parameters import Name, RunName, Size
from flows.train import train
from tasks.reporting import report
from tasks.runs.ask import ask_fork, ask_run
from tasks.stages.source import DatasetRequest
from tasks.training import RunResult


@flow(name="pipeline", flow_run_name=flow_run_label, on_cancellation=[stop_jobs])
def pipeline(
    cluster: LocalCluster,
    hub: HuggingFaceHub,
    trainer: Trainer,
    config: str,
    volume: Name,
    fork_set: dict[str, Any],
    volume_size: Size | None = None,
    name: RunName | None = None,
    set: dict[str, Any] | None = None,  # noqa: A002 - the word that people type
    dataset: DatasetRequest | None = None,
) -> list[RunResult]:
    """Provision a volume, stage what a fine-tune needs, train it, and continue from its latest completed step.

    Args:
        cluster: Where to run.
        hub: Where the model comes from.
        trainer: What to train with.
        config: The trainer's own config, as text.
        volume: The volume; created if it is missing.
        fork_set: What the follow-up run changes, by dotted key, such as {"max_steps": 90, "optim.lr": 0.001}.
        volume_size: Size of a volume that has to be created, such as 500Gi.
        name: Name of the run; the follow-up is called NAME-fork. Empty: made from the flow run.
        set: Changes to the config by dotted key.
        dataset: A dataset to stage first.
    """
    place, access = cluster.connect(), hub.access()
    first = ask_run(
        this_run(name, "finetune"),
        config,
        trainer.settings(),
        changes=set,
        volume=volume,
        volume_size=volume_size,
        dataset=dataset,
    )
    parent = train(place, access, first)
    follow_up = this_run(f"{name}-fork" if name else None, "fork")
    child = train(place, access, ask_fork(place, volume, parent.run, follow_up, changes=fork_set))
    report(place, volume, [parent.run, child.run])
    return [parent, child]
