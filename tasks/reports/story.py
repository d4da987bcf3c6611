"""The story of a run in facts, from the volume alone: what it was made of, how far it came, what it continued from."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from blocks.clusters.port import Cluster
from tasks.pod.metrics import by_step
from tasks.reports.beginning import beginning, first_step_seconds, waited_seconds
from tasks.reports.curves import Curve
from tasks.runs.launch import read_run
from tasks.runs.records import RunRecord
from tasks.runs.state import RunState, run_state


class Story(BaseModel):
    """One run.

    Args:
        metrics: all its metrics lines, by step.
        checkpoints: as `tasks.pod.checkpoints` reports them, oldest step first.
    """

    model_config = ConfigDict(frozen=True)

    record: RunRecord
    state: RunState
    metrics: tuple[dict[str, Any], ...]
    checkpoints: tuple[dict[str, Any], ...]

    @property
    def run(self) -> str:
        return self.record.run

    @property
    def complete_steps(self) -> list[int]:
        return [c["step"] for c in self.checkpoints if c["verdict"] == "complete"]

    @property
    def parent(self) -> str | None:
        source = self.record.plan.resolved.source
        return source.run if source else None

    @property
    def first_step_seconds(self) -> float | None:
        """From the start of the last attempt's job to its first step; None where the trainer tells no times."""
        return first_step_seconds(self.record.last, self.metrics) if self.record.last else None

    def beginning(self) -> dict[str, str]:
        """What it took until it trained, part by part, in words."""
        return beginning(self.record.plan, self.record.last, self.metrics)

    def curve(self) -> Curve:
        source = self.record.plan.resolved.source
        return Curve(self.run, self.metrics, self.complete_steps, source.step if source else 0)

    def losses(self) -> dict[int, float]:
        """Loss by step, where there is one."""
        return {row["step"]: row["loss"] for row in self.metrics if row.get("loss") is not None}

    def summary(self) -> dict[str, Any]:
        """What the metrics come to."""
        losses = self.losses()
        lowest = min(losses, key=lambda step: losses[step], default=None)
        return {
            "lowest_loss": losses[lowest] if lowest is not None else None,
            "lowest_loss_step": lowest,
            "logged_steps": len(self.metrics),
        }

    def facts(self) -> dict[str, Any]:
        """The same as plain JSON, without the curve."""
        last = self.record.last
        plan, losses = self.record.plan, [m["loss"] for m in self.metrics if m.get("loss") is not None]
        return {
            "run": self.run,
            "state": self.state.state,
            "reason": self.state.reason,
            "attempts": len(self.record.attempts),
            "first_step": self.metrics[0]["step"] if self.metrics else None,
            "last_step": self.metrics[-1]["step"] if self.metrics else None,
            "max_steps": plan.max_steps,
            "first_loss": losses[0] if losses else None,
            "last_loss": losses[-1] if losses else None,
            "checkpoints": [{k: c[k] for k in ("path", "step", "verdict", "bytes")} for c in self.checkpoints],
            "weights": plan.resolved.weights.model_dump(mode="json"),
            "weights_read": last.weights.model_dump(mode="json") if last and last.weights else None,
            "preferred_nodes": list(last.preferred_nodes) if last else [],
            "waited_seconds": waited_seconds(last) if last else None,
            "first_step_seconds": self.first_step_seconds,
            "dataset": plan.resolved.dataset.model_dump(mode="json") if plan.resolved.dataset else None,
            "continued_from": plan.resolved.source.model_dump(mode="json") if plan.resolved.source else None,
        }


def tell(cluster: Cluster, volume: str, run: str) -> Story:
    """Read the story of a run.

    Raises:
        NotFoundError: no such volume.
        ProgramError: no such run.
    """
    record = read_run(cluster, volume, run)
    trainer = record.plan.trainer
    ask = {
        "offset": 0,
        "metrics": trainer.metrics,
        "format": trainer.checkpoint_format,
        "checkpoints": trainer.checkpoints,
    }
    seen = cluster.call(volume, "runs.observe", {"runs": {run: ask}})["runs"][run]
    rows = by_step(seen["metrics"])
    return Story(
        record=record,
        state=run_state(cluster, [record])[run],
        metrics=tuple(rows[step] for step in sorted(rows)),
        checkpoints=tuple(seen["checkpoints"]),
    )
