"""Asks a Hub, once, what a revision means: its commit, its files, and whether we may have them."""

from typing import Any

from blocks.clusters.job import Frozen
from blocks.clusters.port import Cluster
from blocks.hub_access import HubAccess
from tasks.stages.source import HubRef


class SnapshotToStage(Frozen):
    """A Hub repository at the commit that its revision was resolved to.

    Args:
        bytes: of all its files, also of those that are on the volume.
        staged: it is on the volume.
    """

    ref: HubRef
    commit: str
    path: str
    bytes: int
    files: int
    staged: bool


def resolve(cluster: Cluster, hub: HubAccess, volume: str | None, ref: HubRef) -> SnapshotToStage:
    """Turn a revision into a commit and say what staging it takes. A staged commit needs no Hub.

    Args:
        volume: where it would be staged; None while that does not exist.

    Raises:
        ProgramError: no such repository or revision, no access, or the Hub does not answer.
    """
    if volume is not None and ref.pinned:
        state = _state(cluster, volume, ref, ref.revision)
        if state["staged"]:
            return _snapshot(ref, ref.revision, state["bytes"], state["files"], staged=True)
    found = cluster.call(None, "snapshots.resolve", ref.model_dump(), env=hub.env(), secrets=hub.secrets())
    staged = volume is not None and _state(cluster, volume, ref, found["commit"])["staged"]
    return _snapshot(ref, found["commit"], found["bytes"], len(found["files"]), staged=staged)


def _state(cluster: Cluster, volume: str, ref: HubRef, commit: str) -> dict[str, Any]:
    return cluster.call(volume, "snapshots.state", {"repo_type": ref.repo_type, "repo": ref.repo, "commit": commit})


def _snapshot(ref: HubRef, commit: str, size: int, files: int, *, staged: bool) -> SnapshotToStage:
    return SnapshotToStage(
        ref=ref,
        commit=commit,
        path=f"hub/{ref.repo_type}s--{ref.repo.replace('/', '--')}/snapshots/{commit}",
        bytes=size,
        files=files,
        staged=staged,
    )
