"""Watches the free bytes of a volume while runs train on it, and acts before the save that would fail."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from blocks.clusters.port import Cluster
from blocks.clusters.size import format_size
from tasks.runs.held import free_bytes, shortage
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
        hold: takes a run that is to be held, and why; None where a follower holds none.
    """

    cluster: Cluster
    volume: str
    say: Callable[[PlanRecord, str], None]
    hold: Callable[[PlanRecord, str], None] | None = None
    _warned: set[str] = field(default_factory=set)

    def look(self, saved: Sequence[Saved]) -> None:
        """Hold a run whose next save does not fit, or warn, as it asks for; prune it first, where it has a policy."""
        live = [s for s in saved if s.bytes and s.steps != 0]
        if not live:
            return
        free = free_bytes(self.cluster, self.volume)
        for run in live:
            if free >= run.bytes:
                self._warned.discard(run.plan.run)
                continue
            if run.plan.request.retention is not None:
                freed = self._prune(run.plan)
                free = free_bytes(self.cluster, self.volume)
                if freed:
                    self.say(run.plan, f"pruned by its policy, for the next save: {format_size(freed)} freed")
                if free >= run.bytes:
                    continue
            why = shortage(self.volume, run.bytes, free)
            remedy = f"Grow it, or make room with `slipway prune {self.volume}`"
            if self.hold is not None and run.plan.request.when_full == "hold":
                self.say(run.plan, f"held after its newest checkpoint: {why}. {remedy}: it goes on by itself then.")
                self.hold(run.plan, why)
            elif run.plan.run not in self._warned:
                self._warned.add(run.plan.run)
                self.say(run.plan, f"the next save would fail: {why}. {remedy}, before that.")

    def _prune(self, plan: PlanRecord) -> int:
        assert plan.request.retention is not None
        report = prune(self.cluster, PruneRequest(volume=self.volume, run=plan.run, grace_seconds=_GRACE_SECONDS))
        return report.freed_bytes
