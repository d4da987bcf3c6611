"""Fine-tune: plan, provision, stage, launch, follow."""

from typing import Any

from prefect import flow

from blocks.hub import HuggingFaceHub
from blocks.local_cluster import LocalCluster
from blocks.trainer import Trainer
from flows.cancellation import stop_jobs
from flows.naming import flow_run_label, this_run
from flows.parameters import Name, RunName, Size
from flows.train import train
from tasks.runs.ask import ask_run
from tasks.stages.source import DatasetRequest
from tasks.training import RunResult


@flow(name="finetune", flow_run_name=flow_run_label, on_cancellation=[stop_jobs])
def finetune(
    cluster: LocalCluster,
    hub: HuggingFaceHub,
    trainer: Trainer,
    config: str,
    volume: Name | None = None,
    volume_size: Size | None = None,
    name: RunName | None = None,
    set: dict[str, Any] | None = None,  # noqa: A002 - the word that people type
    dataset: DatasetRequest | None = None,
    wait: bool = True,
) -> RunResult:
    """Train a model from staged weights and data, and report every completed checkpoint.

    Args:
        cluster: Where to run.
        hub: Where the model comes from, if the config names one on a Hub.
        trainer: What to train with.
        config: The trainer's own config, as text.
        volume: The volume to run on; created if it is missing. Empty: the one that the config names.
        volume_size: Size of a volume that has to be created, such as 500Gi. An existing one is left as it is.
        name: Name of the run. The same name with the same request is the same run. Empty: made from the flow run.
        set: Changes to the config by dotted key, such as {"optim.lr": 0.001}.
        dataset: A dataset to stage first.
        wait: Follow the run to its end; otherwise return once its job is submitted.
    """
    request = ask_run(
        this_run(name, "finetune"),
        config,
        trainer.settings(),
        changes=set,
        volume=volume,
        volume_size=volume_size,
        dataset=dataset,
    )
    return train(cluster.connect(), hub.access(), request, wait=wait)
