"""What to keep of a volume, and taking the rest away: asks the program beside the data."""

from typing import Any

from pydantic import Field

from blocks.clusters.job import Frozen
from blocks.clusters.port import Cluster
from tasks.runs.records import Record

_DAY = 86_400.0


class PruneRequest(Frozen):
    """What a person or a schedule asks for.

    Args:
        run: only this one; its own policy is beaten by `keep_last` and `keep_every`. None for all, where these count
            for runs without a policy of their own.
        unreferenced: also snapshots and datasets that no run refers to.
        grace_seconds: how long anything stays after it last changed; None for the default.
    """

    volume: str
    run: str | None = None
    keep_last: int | None = Field(default=None, ge=1)
    keep_every: int | None = Field(default=None, ge=1)
    unreferenced: bool = False
    grace_seconds: float | None = Field(default=None, ge=0)


class Kept(Record):
    path: str
    step: int | None
    why: str


class Pruned(Record):
    """A checkpoint, or what was set aside as torn, that goes.

    Args:
        freed: bytes that no other link keeps.
        done: it is gone; False in a plan, and where something came up.
    """

    path: str
    step: int | None
    bytes: int
    freed: int
    why: str
    done: bool


class PrunedRun(Record):
    """`path`s are relative to the run's directory."""

    run: str
    policy: dict[str, int | None]
    kept: tuple[Kept, ...]
    deleted: tuple[Pruned, ...]


class Unreferenced(Record):
    """A snapshot or a dataset that no run refers to; `path` is relative to the volume."""

    kind: str
    path: str
    bytes: int
    freed: int
    deleted: bool
    why: str


class PruneReport(Record):
    """What goes, or what went.

    Args:
        leftovers: count and bytes of what killed removals had left.
        freed_bytes: of everything that goes.
    """

    runs: tuple[PrunedRun, ...]
    unreferenced: tuple[Unreferenced, ...]
    leftovers: dict[str, int]
    freed_bytes: int

    @property
    def checkpoints(self) -> int:
        """How many checkpoints go."""
        return sum(len(run.deleted) for run in self.runs)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to take away, without counting what is only reported."""
        return not self.checkpoints and not self.leftovers["count"]


def plan_prune(cluster: Cluster, request: PruneRequest) -> PruneReport:
    """What `prune` would do. Changes nothing.

    Raises:
        NotFoundError: no such volume.
        ProgramError: no such run.
    """
    return _ask(cluster, "retention.plan", request, writable=False)


def prune(cluster: Cluster, request: PruneRequest) -> PruneReport:
    """Take away what nobody needs; everything is looked at again before it goes.

    Raises:
        NotFoundError, ProgramError: as `plan_prune`.
    """
    return _ask(cluster, "retention.prune", request, writable=True)


def _ask(cluster: Cluster, program: str, request: PruneRequest, *, writable: bool) -> PruneReport:
    arguments: dict[str, Any] = request.model_dump(mode="json", exclude={"volume", "run"})
    arguments["runs"] = [request.run] if request.run else None
    answer = cluster.call(request.volume, program, arguments, writable=writable, timeout_seconds=_DAY)
    return PruneReport.model_validate(answer)
