"""Asks a Hub, once, what a revision means: its commit, its files, and whether we may have them."""

from typing import Any

from blocks.clusters.errors import ProgramError, UsageError
from blocks.clusters.job import Frozen
from blocks.clusters.port import Cluster
from blocks.hub_access import HubAccess
from tasks.pod.selection import Selection
from tasks.stages.source import HubRef


class SnapshotToStage(Frozen):
    """A Hub repository at the commit that its revision was resolved to.

    Args:
        bytes, files: of what is wanted of it, also where that is on the volume.
        staged: all that is wanted is on the volume.
        lacks, lacks_bytes: where only a part of that is: the rest.
    """

    ref: HubRef
    commit: str
    path: str
    bytes: int
    files: int
    staged: bool
    lacks: int = 0
    lacks_bytes: int = 0

    @property
    def missing_bytes(self) -> int:
        """Bytes still to be staged."""
        if self.staged:
            return 0
        return self.lacks_bytes or self.bytes

    @property
    def partial(self) -> bool:
        return not self.staged and self.lacks > 0


def resolve(cluster: Cluster, hub: HubAccess, volume: str | None, ref: HubRef) -> SnapshotToStage:
    """Turn a revision into a commit and say what staging it takes. A commit that is staged, even in part, needs no Hub.

    Args:
        volume: where it would be staged; None while that does not exist.

    Raises:
        ProgramError: no such repository or revision, no access, or the Hub does not answer.
    """
    if volume is not None and ref.pinned:
        state = _state(cluster, volume, ref, ref.revision)
        if state["staged"] or state["partial"]:
            size, count = state["bytes"] + state["lacks_bytes"], state["files"] + state["lacks"]
            return _snapshot(ref, ref.revision, size, count, state)
    try:
        return look_up(cluster, hub, volume, ref)
    except ProgramError as error:
        if error.kind == "UnreachableError" and volume is not None and (staged := _staged(cluster, volume, ref)):
            remedy = f"Name {ref.repo}@{staged} to use what is staged on volume {volume}. {error.remedy}"
            raise ProgramError(error.what, remedy, error.kind) from None
        raise


def _staged(cluster: Cluster, volume: str, ref: HubRef) -> str | None:
    """The commit that a revision was when it was last staged, if that is on the volume."""
    asked = {"repo_type": ref.repo_type, "repo": ref.repo, "revision": ref.revision}
    try:
        return str(cluster.call(volume, "snapshots.find", asked)["commit"])
    except ProgramError:
        return None


def look_up(cluster: Cluster, hub: HubAccess, volume: str | None, ref: HubRef) -> SnapshotToStage:
    """The same, from the Hub in any case. Raises: ProgramError."""
    found = cluster.call(None, "snapshots.resolve", ref.model_dump(), env=hub.env(), secrets=hub.secrets())
    selection = Selection(ref.allow, ref.ignore)
    sizes = [file["size"] for file in found["files"] if selection.wants(file["path"])]
    if not sizes:
        raise UsageError(f"The patterns leave no file of {ref.repo}.", "Check them against the files it has.")
    state = _state(cluster, volume, ref, found["commit"]) if volume is not None else {"staged": False}
    return _snapshot(ref, found["commit"], sum(sizes), len(sizes), state)


def _state(cluster: Cluster, volume: str, ref: HubRef, commit: str) -> dict[str, Any]:
    asked = {"repo_type": ref.repo_type, "repo": ref.repo, "commit": commit, "allow": ref.allow, "ignore": ref.ignore}
    return cluster.call(volume, "snapshots.state", asked)


def _snapshot(ref: HubRef, commit: str, size: int, files: int, state: dict[str, Any]) -> SnapshotToStage:
    return SnapshotToStage(
        ref=ref,
        commit=commit,
        path=f"hub/{ref.repo_type}s--{ref.repo.replace('/', '--')}/snapshots/{commit}",
        bytes=size,
        files=files,
        staged=state["staged"],
        lacks=state.get("lacks", 0),
        lacks_bytes=state.get("lacks_bytes", 0),
    )
