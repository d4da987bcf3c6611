"""Makes sure that a snapshot, weights or a dataset version are on a volume: a no-op of milliseconds where it is."""

from typing import Any

from blocks.clusters.port import Cluster
from blocks.hub_access import HubAccess
from tasks.pod.staging import dataset_identity, snapshot_identity, weights_identity
from tasks.runs.records import Dataset, Download, Weights
from tasks.stages.resolve import SnapshotToStage, resolve
from tasks.stages.source import DatasetRequest, WeightsToStage, folder_source, hub_dataset, s3_source
from tasks.stages.stage import Access, Notice, StagingError, stage

_MOST_JOBS = 4


def stage_snapshot(cluster: Cluster, hub: HubAccess, volume: str, snapshot: SnapshotToStage, notice: Notice) -> Weights:
    """Stage a resolved snapshot, unless it is staged.

    Raises:
        StagingError: the job failed.
    """
    download: Download | None = None
    staged, ref = snapshot.staged, snapshot.ref
    for _ in range(_MOST_JOBS):
        if staged:
            break
        arguments = {**_what(snapshot), "revision": None if ref.pinned else ref.revision}
        if ref.allow or ref.ignore:
            arguments |= {"allow": ref.allow, "ignore": ref.ignore}
        answer = stage(cluster, volume, "snapshots", _identity(snapshot), arguments, notice, access=hub)
        download = Download(bytes=answer["fetched_bytes"], seconds=answer["seconds"])
        # the job that was adopted may have been asked for less of the repository
        staged = cluster.call(volume, "snapshots.state", arguments)["staged"]
    if not staged:
        raise StagingError(f"{ref.repo} is not staged after {_MOST_JOBS} jobs.", "Look at their logs, then ask again.")
    return Weights(path=snapshot.path, repo=ref.repo, commit=snapshot.commit, bytes=snapshot.bytes, download=download)


def verify_snapshot(
    cluster: Cluster, hub: HubAccess, volume: str, snapshot: SnapshotToStage, notice: Notice
) -> dict[str, Any]:
    """Read every byte of a staged snapshot again, and replace what is bad; return what `tasks.pod.verify` found.

    Raises:
        StagingError: the job failed.
    """
    arguments = {**_what(snapshot), "repair": True}
    return stage(cluster, volume, "snapshots", _identity(snapshot), arguments, notice, program="verify", access=hub)


def _what(snapshot: SnapshotToStage) -> dict[str, Any]:
    return {"repo_type": snapshot.ref.repo_type, "repo": snapshot.ref.repo, "commit": snapshot.commit}


def _identity(snapshot: SnapshotToStage) -> str:
    return snapshot_identity(snapshot.ref.repo_type, snapshot.ref.repo, snapshot.commit)


def stage_dataset(cluster: Cluster, hub: HubAccess, volume: str, asked: DatasetRequest, notice: Notice) -> Dataset:
    """Stage a dataset, unless the version asked for is staged. Without a version, the content names it.

    Raises:
        StagingError: the job failed.
        ProgramError: the Hub or the bucket has no such dataset, or refuses it.
    """
    if asked.version:
        state = cluster.call(volume, "datasets.state", {"name": asked.name, "version": asked.version})
        if state["staged"]:
            return dataset_of(asked.name, state)
    source: dict[str, Any]
    access: Access | None = None
    if s3 := s3_source(asked):
        access, source = s3
    elif ref := hub_dataset(asked.source):
        found = resolve(cluster, hub, volume, ref)
        source, access = {"kind": "hub", "repo": ref.repo, "commit": found.commit}, hub
    else:
        source = folder_source(asked.source)
    arguments = {"name": asked.name, "version": asked.version, "source": source}
    key = dataset_identity(asked.name, asked.version, source)
    answer = stage(cluster, volume, "datasets", key, arguments, notice, access=access)
    return dataset_of(asked.name, answer)


def stage_weights(cluster: Cluster, volume: str, asked: WeightsToStage, notice: Notice) -> Weights:
    """Stage weights as models/NAME, unless they are there as they are at the source now.

    Raises:
        StagingError: the job failed.
    """
    access, source = s3_source(asked) or (None, folder_source(asked.source))
    arguments = {"name": asked.name, "source": source}
    answer = stage(cluster, volume, "weights", weights_identity(asked.name), arguments, notice, access=access)
    return Weights(path=answer["path"], bytes=answer["bytes"])


def dataset_of(name: str, state: dict[str, Any]) -> Dataset:
    """A staged version, as `datasets.state` and `datasets.stage` describe it."""
    return Dataset(path=state["path"], name=name, version=state["version"], manifest_sha256=state["manifest_sha256"])
