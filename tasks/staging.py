"""Steps that stage: one job per snapshot or dataset version, a no-op where it is staged."""

from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

from prefect import get_run_logger, task
from prefect.artifacts import create_progress_artifact, update_progress_artifact

from blocks.clusters.port import Cluster
from blocks.clusters.size import format_size
from blocks.hub_access import HubAccess
from tasks.errors import hush_expected
from tasks.plans.plan import Plan
from tasks.runs.records import Dataset, Weights
from tasks.stages.resolve import SnapshotToStage, resolve
from tasks.stages.source import DatasetRequest, HubRef
from tasks.stages.staged import stage_dataset, stage_snapshot

hush_expected()


@task(name="resolve snapshot", task_run_name="resolve {ref.repo}@{ref.revision}")
def resolve_snapshot(cluster: Cluster, hub: HubAccess, volume: str, ref: HubRef) -> SnapshotToStage:
    """Turn a revision into a commit, once, and find out whether we may have its files."""
    snapshot = resolve(cluster, hub, volume, ref)
    get_run_logger().info(
        "%s@%s is commit %s: %d files, %s", ref.repo, ref.revision, snapshot.commit, snapshot.files,
        format_size(snapshot.bytes),
    )  # fmt: skip
    return snapshot


@task(name="stage snapshot", task_run_name="stage {snapshot.ref.repo}")
def stage_model(cluster: Cluster, hub: HubAccess, volume: str, snapshot: SnapshotToStage) -> Weights:
    """Have a resolved snapshot on the volume, every byte verified."""
    weights = stage_snapshot(cluster, hub, volume, snapshot, _reporter(f"model {snapshot.ref.repo}"))
    state = "was staged already" if snapshot.staged else "is staged"
    get_run_logger().info("model %s at %s %s: %s", snapshot.ref.repo, snapshot.commit[:12], state, weights.path)
    return weights


@task(name="stage dataset", task_run_name="stage dataset {asked.name}")
def stage_data(cluster: Cluster, hub: HubAccess, volume: str, asked: DatasetRequest) -> Dataset:
    """Have a dataset version on the volume."""
    dataset = stage_dataset(cluster, hub, volume, asked, _reporter(f"dataset {asked.name}"))
    get_run_logger().info("dataset %s version %s is staged: %s", asked.name, dataset.version, dataset.path)
    return dataset


def stage_inputs(cluster: Cluster, hub: HubAccess, plan: Plan) -> tuple[Weights, Dataset | None]:
    """Have on the volume what a planned run reads, and return where it lies."""
    resolved, request = plan.resolved, plan.request
    assert resolved is not None
    weights, dataset = resolved.weights, resolved.dataset
    if plan.snapshot is not None:
        weights = stage_model(cluster, hub, request.volume, plan.snapshot)
    if dataset is None and request.dataset is not None and plan.record is None:
        dataset = stage_data(cluster, hub, request.volume, request.dataset)
    return weights, dataset


def _reporter(what: str) -> Callable[[dict[str, Any]], None]:
    """Shows the notes of a staging job as log lines and as one progress artifact that moves."""
    artifact = cast(UUID, create_progress_artifact(progress=0.0, description=f"Staging {what}"))
    logger, last = get_run_logger(), [-1.0]

    def notice(note: dict[str, Any]) -> None:
        total = note.get("bytes_total") or 0
        if not total:
            return
        share = 100 * note["bytes_done"] / total
        if share != last[0]:
            last[0] = share
            update_progress_artifact(artifact, progress=share)
            logger.info("staging %s: %s of %s", what, format_size(note["bytes_done"]), format_size(total))

    return notice
