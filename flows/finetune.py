"""Fine-tune: plan, provision, stage, launch, follow."""

from prefect import flow

from blocks.cluster import ClusterBlock
from blocks.hub import HuggingFaceHub
from blocks.trainer import Trainer
from flows.cancellation import stop_jobs
from flows.naming import flow_run_label, this_run
from flows.parameters import (
    NO_CHANGES,
    NOTHING,
    Changes,
    Config,
    ModelOrConfigs,
    RunOrMade,
    SizeOrDefault,
    Trust,
    VolumeOrConfigs,
)
from flows.sources import with_bucket
from flows.train import train
from tasks.runs.ask import ask_run
from tasks.runs.request import IN_PLACE, WeightsRequest
from tasks.stages.source import DatasetRequest
from tasks.training import RunResult


@flow(name="finetune", flow_run_name=flow_run_label, on_cancellation=[stop_jobs])
def finetune(
    *,
    name: RunOrMade = "",
    config: Config,
    set: Changes = NO_CHANGES,  # noqa: A002 - the word that people type
    model: ModelOrConfigs = "",
    dataset: DatasetRequest | None = None,
    weights: WeightsRequest = IN_PLACE,
    volume: VolumeOrConfigs = "",
    volume_size: SizeOrDefault = "",
    trainer: Trainer,
    cluster: ClusterBlock,
    hub: HuggingFaceHub,
    trust: Trust = NOTHING,
    wait: bool = True,
) -> RunResult:
    """Train a model from staged weights and data, and report every completed checkpoint.

    Args:
        name: What the training run is called on its volume, such as "llama-sft-1": lower-case letters, digits and
            hyphens, 48 at most. Asked for again under the same name, with everything else the same, it goes on or is
            reused. Left empty, a name is made. (Prefect's own "Run Name" above is only a label, and is replaced.)
        config: The trainer's own config file, as text. Drag the corner of the field to see all of it.
        set: Changes to the config, so that the text above need not be touched: dotted keys and their values, such as
            {"max_steps": 100, "optim.lr": 0.001}.
        model: The base model, in place of the one that the config names: one that is staged, or another one, such as
            org/name@revision or /volume/models/NAME. Left empty: the config's.
        dataset: The data to train on, staged on the volume first unless it is there. None: the config names a dataset
            that is staged already.
        weights: Where the weights of the base model are read from: in place on the volume, or from a copy that is made
            on the node before training starts.
        volume: The storage that keeps weights, data and runs, such as "research"; created if it is missing. Where
            none is given, the one that the config names.
        volume_size: Size of the volume if it has to be created, such as 500Gi or 2Ti (10Ti at most). An existing one is
            left as it is. Where none is given, the config's, else 1Ti.
        trainer: What to train with: the program, its image, and the CPUs and GPUs that it gets.
        cluster: Where the volume is and the job runs.
        hub: Where the model is downloaded from, if the config names one on a Hub.
        trust: Checkpoints that can not be proven complete and are to be taken all the same, such as
            "checkpoints/step_40". Only needed where a run was refused with that remedy.
        wait: On: follow the training to its end and report every completed checkpoint. Off: end as soon as its job is
            submitted.
    """
    request = ask_run(
        this_run(name, "finetune"),
        config,
        trainer.settings(),
        changes=set,
        model=model,
        volume=volume,
        volume_size=volume_size,
        dataset=with_bucket(dataset),
        weights=weights,
        trust=tuple(trust),
    )
    return train(cluster.connect(), hub.access(), request, wait=wait)
