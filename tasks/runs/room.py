"""Watches the free bytes of a volume while runs train on it, and says so before the save that would fail."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from blocks.clusters.port import Cluster
from blocks.clusters.size import format_size
from tasks.runs.prune import PruneRequest, prune
from tasks.runs.records import PlanRecord

_GRACE_SECONDS = 0  # the next save may be near, and what a fork is about to hold is looked at before each deletion


@dataclass(frozen=True)
class Saved:
    """What a run has saved.

    Args:
        bytes: of its newest complete checkpoint: the next one is taken to be as large.
        steps: that it has still to train; None where that is not known.
    """

    plan: PlanRecord
    bytes: int
    steps: int | None


@dataclass
class Room:
    """Looked at whenever a checkpoint was completed.

    Args:
        say: takes a warning.
    """

    cluster: Cluster
    volume: str
    say: Callable[[PlanRecord, str], None]
    _warned: set[str] = field(default_factory=set)

    def look(self, saved: Sequence[Saved]) -> None:
        """Warn where the next save of a run does not fit; prune the run first, where it has a policy of its own."""
        live = [s for s in saved if s.bytes and s.steps != 0]
        if not live:
            return
        free = self._free()
        for run in live:
            if free >= run.bytes:
                self._warned.discard(run.plan.run)
                continue
            if run.plan.request.retention is not None:
                freed = self._prune(run.plan)
                free = self._free()
                if freed:
                    self.say(run.plan, f"pruned by its policy, for the next save: {format_size(freed)} freed")
                if free >= run.bytes:
                    continue
            if run.plan.run not in self._warned:
                self._warned.add(run.plan.run)
                self.say(
                    run.plan,
                    f"the next save would fail: it takes {format_size(run.bytes)}, and {format_size(free)} are free on "
                    f"volume {self.volume}. Grow it, or make room with `slipway prune {self.volume}`, before that.",
                )

    def _free(self) -> int:
        usage = self.cluster.call(self.volume, "volume.usage", {})
        volume = self.cluster.volumes.get(self.volume)
        left = max(0, (volume.actual_size or volume.size) - usage["used_bytes"])
        return int(min(left, usage["disk_free_bytes"]))

    def _prune(self, plan: PlanRecord) -> int:
        assert plan.request.retention is not None
        report = prune(self.cluster, PruneRequest(volume=self.volume, run=plan.run, grace_seconds=_GRACE_SECONDS))
        return report.freed_bytes
