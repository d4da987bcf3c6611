"""What counts of a run that is over: its value, its newest checkpoint, the time it took. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from tasks.pod.metrics import is_number
from tasks.pod.trainers.schema import nearest
from tasks.runs.follow import Progress
from tasks.runs.records import Attempt
from tasks.sweeps.log import End, Origin
from tasks.sweeps.spec import Search

_NO_METRICS = ("step", "time", "seconds")


def outcome(search: Search, progress: Progress, earlier: Iterable[Attempt], gpus: int, *, unwanted: str = "") -> End:
    """The entry for a run that is over.

    Args:
        progress: with its end.
        earlier: its attempts before the last one.
        gpus: that each of them had.
        unwanted: why the sweep stopped it; however it ended, it was stopped.
    """
    end = progress.end
    assert end is not None
    value = value_of(search, progress.curve)
    state: Literal["completed", "failed", "stopped"] = "failed"
    cause, reason = end.cause, end.reason
    if unwanted:
        state, reason = "stopped", unwanted
    elif end.state in ("completed", "stopped"):
        state = "completed" if end.state == "completed" else "stopped"
    if state == "completed" and value is None:
        state, cause, reason = "failed", "no value", _without(search, progress.curve)
    ends = [a.end for a in earlier if a.end] + [end]
    hours = sum(_hours(e.started_at, e.ended_at) for e in ends)
    return End(
        run=progress.launch.plan.run,
        state=state,
        cause=cause,
        reason=reason,
        value=value,
        step=progress.step,
        newest=newest_of(progress),
        gpu_hours=hours * gpus,
        hours=hours,
    )


def value_of(search: Search, curve: Mapping[int, Mapping[str, Any]], until: int | None = None) -> float | None:
    """A run's value: the last, or the best, of its metric. None if there is none, or the last is not finite: a run that
    has diverged is not as good as it was before.

    Args:
        until: the last step that counts; None for all.
    """
    values = [
        curve[step][search.metric]
        for step in sorted(curve)
        if (until is None or step <= until) and search.metric in curve[step]
    ]
    numbers = [float(value) for value in values if is_number(value)]
    if not numbers or (search.take == "last" and not is_number(values[-1])):
        return None
    return numbers[-1] if search.take == "last" else min(numbers, key=lambda v: search.sign * v)


def newest_of(progress: Progress, below: int | None = None) -> Origin | None:
    """The newest completed checkpoint of a run that training can go on from."""
    run = progress.launch.plan.run
    good = [
        c
        for c in progress.checkpoints
        if c["verdict"] == "complete" and c["resumable"] and c["step"] and (below is None or c["step"] < below)
    ]
    if not good:
        return None
    found = max(good, key=lambda c: int(c["step"]))
    path = f"runs/{run}/{found['path']}"
    return Origin(run=run, path=path, step=found["step"], fingerprint=found["fingerprint"])


def _without(search: Search, curve: Mapping[int, Mapping[str, Any]]) -> str:
    if of_it := [step for step in sorted(curve) if search.metric in curve[step]]:
        return f"its {search.metric} is no finite number at step {of_it[-1]}"
    there = sorted({key for row in curve.values() for key in row if key not in _NO_METRICS})
    near = nearest(search.metric, there)
    hint = f"did you mean {near!r}?" if near else f"it reports {', '.join(there) or 'nothing'}"
    return f"it reports no {search.metric!r}: {hint}"


def _hours(began: datetime | None, ended: datetime | None) -> float:
    return max(0.0, (ended - began).total_seconds() / 3600) if began and ended else 0.0
