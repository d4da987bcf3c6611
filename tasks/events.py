"""Events that people's automations can wait for. Each has an id made from what it is about, so that the same event,
announced again by whoever follows next, is the same event to Prefect and fires a trigger once."""

import uuid
from typing import Any

from prefect.events import emit_event

from tasks.runs.launch import Launch
from tasks.runs.records import End, PlanRecord

CHECKPOINT_EVENT = "slipway.checkpoint.completed"
RUN_EVENT = "slipway.run"
STAGED_EVENT = "slipway.staged"
SWEEP_EVENT = "slipway.sweep.completed"
_EVENTS = uuid.UUID("6f1c1c1e-7d0b-4a86-9b8e-2f6f6d0f5a11")


def announce_checkpoint(plan: PlanRecord, checkpoint: dict[str, Any]) -> None:
    """A checkpoint of a run was found complete.

    Args:
        checkpoint: as `tasks.pod.checkpoints` reports it.
    """
    emit_event(
        CHECKPOINT_EVENT,
        resource={**_resource(plan), "slipway.step": str(checkpoint["step"])},
        payload={
            "run": plan.run,
            "volume": plan.volume,
            "step": checkpoint["step"],
            "path": f"runs/{plan.run}/{checkpoint['path']}",
            "format": checkpoint["format"],
            "bytes": checkpoint["bytes"],
            "fingerprint": checkpoint["fingerprint"],
        },
        id=_of_run(plan, checkpoint["step"], checkpoint["fingerprint"]),
    )


def announce_end(launched: Launch, end: End, step: int) -> None:
    """A run is over: `slipway.run.completed`, `.failed`, `.stopped` or `.lost`.

    Args:
        step: the last one trained.
    """
    plan = launched.plan
    emit_event(
        f"{RUN_EVENT}.{end.state}",
        resource=_resource(plan),
        payload={"run": plan.run, "volume": plan.volume, "step": step, "cause": end.cause, "reason": end.reason},
        id=_of_run(plan, launched.attempt.attempt, end.state),
    )


def announce_staged(volume: str, kind: str, name: str, version: str, path: str) -> None:
    """A model's snapshot, somebody's weights or a dataset's version is on a volume.

    Args:
        kind: "model", "weights" or "dataset".
        version: the commit, or the dataset's version; "" for weights.
        path: relative to the volume.
    """
    emit_event(
        f"{STAGED_EVENT}.{kind}",
        resource={"prefect.resource.id": f"slipway.{kind}.{name}", "slipway.volume": volume},
        payload={"volume": volume, "name": name, "version": version, "path": path},
        id=uuid.uuid5(_EVENTS, "/".join((volume, kind, name, version))),
    )


def announce_sweep(volume: str, sweep: str, planned: str, best: str | None, value: float | None) -> None:
    """A sweep is over.

    Args:
        planned: when it was.
        best: its best run.
    """
    emit_event(
        SWEEP_EVENT,
        resource={"prefect.resource.id": f"slipway.sweep.{sweep}", "slipway.volume": volume},
        payload={"sweep": sweep, "volume": volume, "best": best, "value": value},
        id=uuid.uuid5(_EVENTS, "/".join((volume, sweep, planned, "over"))),
    )


def _resource(plan: PlanRecord) -> dict[str, str]:
    return {"prefect.resource.id": f"slipway.run.{plan.run}", "slipway.volume": plan.volume}


def _of_run(plan: PlanRecord, *about: object) -> uuid.UUID:
    """Another one for a run of that name on another volume, or planned anew."""
    planned = plan.created_at.isoformat()
    return uuid.uuid5(_EVENTS, "/".join(map(str, (plan.volume, plan.run, planned, *about))))
