"""What counts of a run that is over: its value, its newest checkpoint, the time it took. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from tasks.pod.metrics import NOT_FINITE
from tasks.pod.trainers.schema import nearest
from tasks.runs.follow import Progress
from tasks.runs.records import Attempt
from tasks.sweeps.log import End, Node, Origin
from tasks.sweeps.spec import Search
from tasks.sweeps.stopping import compared_at, said

_NO_METRICS = ("step", "time", "seconds", NOT_FINITE)


def outcome(
    search: Search, progress: Progress, earlier: Iterable[Attempt], gpus: int, node: Node, *, closed: str = ""
) -> End:
    """The entry for a run that is over.

    Args:
        progress: with its end.
        earlier: its attempts before the last one.
        gpus: that each of them had.
        closed: why the sweep stops all that trains; "" if it does not.
    """
    end = progress.end
    assert end is not None
    value = value_of(search, progress.curve)
    state: Literal["completed", "failed", "stopped"] = "failed"
    cause, reason = end.cause, end.reason
    unsound = said(search.metric, progress.not_finite, progress.step)
    if node.replaced_by:  # its trial goes on elsewhere, however this came to its end
        state, cause, reason = "stopped", "replaced", f"{node.replaced_by} takes its place"
    elif end.state == "completed":
        if unsound and (value is None or search.take == "last"):
            state, cause, reason = "stopped", "diverged", unsound
        elif value is None:
            cause, reason = "no value", _without(search, progress.curve)
        else:
            state = "completed"
    elif node.stop is not None:
        state, cause, reason = "stopped", node.stop.cause, node.stop.reason
    elif closed or end.state == "stopped":
        state, reason = "stopped", closed or reason
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
        at=values_at(search, progress) if state != "failed" else {},
    )


def values_at(search: Search, progress: Progress) -> dict[int, float]:
    """A run's values at the steps at which the median rule compares."""
    wanted = compared_at(search, progress.step)
    found: dict[int, float] = {}
    if not wanted:
        return found
    value, rows = None, sorted(progress.curve.items())
    place = 0
    for step in wanted:
        before = place
        while place < len(rows) and rows[place][0] <= step:
            place += 1
        value = value_of(search, dict(rows[before:place]), known=value)
        if value is not None:
            found[step] = value
    return found


def value_of(
    search: Search,
    curve: Mapping[int, Mapping[str, Any]],
    until: int | None = None,
    known: float | None = None,
) -> float | None:
    """A run's value: the last, or the best, of its metric. None where the last one is NaN or infinite.

    Args:
        until: the last step that counts; None for all.
        known: what it was before the first of these steps.
    """
    value = known
    for step in sorted(curve):
        row = curve[step]
        if until is not None and step > until:
            break
        new = row.get(search.metric)
        if isinstance(new, int | float) and not isinstance(new, bool):
            better = value is None or search.take == "last" or search.sign * new < search.sign * value
            value = float(new) if better else value
        elif search.take == "last" and search.metric in row.get(NOT_FINITE, ()):
            value = None
    return value


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
    there = sorted({key for row in curve.values() for key in row if key not in _NO_METRICS})
    near = nearest(search.metric, there)
    hint = f"did you mean {near!r}?" if near else f"it reports {', '.join(there) or 'nothing'}"
    return f"it reports no {search.metric!r}: {hint}"


def _hours(began: datetime | None, ended: datetime | None) -> float:
    return max(0.0, (ended - began).total_seconds() / 3600) if began and ended else 0.0
