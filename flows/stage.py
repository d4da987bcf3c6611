"""Stage: a model, weights and a dataset onto a volume, once, on a CPU job."""

from prefect import flow

from blocks.cluster import ClusterBlock
from blocks.hub import HuggingFaceHub
from flows.naming import flow_run_label
from flows.parameters import NOTHING, Model, Patterns, SizeOrDefault, Volume
from flows.sources import with_bucket
from tasks.runs.records import Dataset, Weights
from tasks.stages.source import DatasetRequest, WeightsToStage, hub_model
from tasks.staging import resolve_snapshot, show_staged, stage_data, stage_model, stage_own_weights, verify_model
from tasks.volumes import parse_optional_size, provision


@flow(name="stage", flow_run_name=flow_run_label)
def stage(
    *,
    model: Model | None = None,
    allow: Patterns = NOTHING,
    ignore: Patterns = NOTHING,
    verify: bool = False,
    weights: WeightsToStage | None = None,
    dataset: DatasetRequest | None = None,
    volume: Volume,
    volume_size: SizeOrDefault = "",
    cluster: ClusterBlock,
    hub: HuggingFaceHub,
) -> None:
    """Have a model, weights and a dataset on a volume: verified, pinned, readable offline by every run.

    Args:
        model: A model on the Hub: ORG/NAME, with @REVISION behind it for a branch, a tag or a commit. None: only the
            dataset.
        allow: Only these files of the model, such as "*.safetensors". Left empty: all of them. What is left out is
            staged by a later request that wants it.
        ignore: Not these files of the model, such as "onnx/*".
        verify: Read every byte of a model that is staged already again, and replace what is bad.
        weights: Weights of your own to stage, proven complete. None: none.
        dataset: A dataset to stage. None: only the model.
        volume: The storage to put them on, such as "research"; created if it is missing.
        volume_size: Size of the volume if it has to be created, such as 500Gi or 2Ti (10Ti at most). An existing one is
            left as it is. Where none is given, 1Ti.
        cluster: Where the volume is and the staging jobs run.
        hub: Where the model is downloaded from.
    """
    place, access = cluster.connect(), hub.access()
    found: list[Weights | Dataset] = []
    provision(place, volume, parse_optional_size(volume_size))
    if model:
        ref = hub_model(model, allow, ignore)
        snapshot = resolve_snapshot(place, access, volume, ref)
        found.append(stage_model(place, access, volume, snapshot))
        if verify and snapshot.staged:
            verify_model(place, access, volume, snapshot)
    if own := with_bucket(weights):
        found.append(stage_own_weights(place, volume, own))
    if data := with_bucket(dataset):
        found.append(stage_data(place, access, volume, data))
    show_staged(volume, found)
