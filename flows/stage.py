"""Stage: a model and a dataset onto a volume, once, on a CPU job."""

from prefect import flow

from blocks.hub import HuggingFaceHub
from blocks.local_cluster import LocalCluster
from flows.naming import flow_run_label
from flows.parameters import Model, Name, Size
from tasks.stages.source import DatasetRequest, hub_model
from tasks.staging import resolve_snapshot, stage_data, stage_model
from tasks.volumes import parse_optional_size, provision


@flow(name="stage", flow_run_name=flow_run_label)
def stage(
    cluster: LocalCluster,
    hub: HuggingFaceHub,
    volume: Name,
    model: Model | None = None,
    dataset: DatasetRequest | None = None,
    volume_size: Size | None = None,
) -> None:
    """Have a model and a dataset on a volume: verified, pinned, readable offline by every run.

    Args:
        cluster: Where the volume is.
        hub: Where the model comes from.
        volume: The volume; created if it is missing.
        model: ORG/NAME, with @REVISION for a branch, a tag or a commit.
        dataset: A dataset to stage.
        volume_size: Size of a volume that has to be created, such as 500Gi.
    """
    place, access = cluster.connect(), hub.access()
    provision(place, volume, parse_optional_size(volume_size))
    if model:
        stage_model(place, access, volume, resolve_snapshot(place, access, volume, hub_model(model)))
    if dataset:
        stage_data(place, access, volume, dataset)
