"""What becomes of a scheduled time: its name, and whether it is still wanted.

A worker that comes back starts every flow run that came due while it was away, all at once. Prefect has no switch for
that, so the flow decides itself, from facts that every one of those flow runs sees alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from prefect import State, runtime
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterId,
)
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import FlowRunSort
from prefect.states import Completed

from blocks.clusters.names import fit_name

Late = Literal["latest", "skip", "run"]
Busy = Literal["skip", "run"]

GRACE = timedelta(minutes=10)
"""How late a start may be and still count as in time."""

_LOOKED_AT = timedelta(days=14)


@dataclass(frozen=True)
class Slot:
    """A flow run that a schedule made.

    Args:
        due: when it was to start.
        began: when it did.
        live: whether it runs.
    """

    due: datetime
    began: datetime | None = None
    live: bool = False


def why_skip(mine: Slot, others: Sequence[Slot], now: datetime, late: Late, busy: Busy) -> str:
    """Why a scheduled time is left out; "" if it is not.

    Args:
        others: of the same deployment.
        late: "latest": of several that are due, only the newest runs. "skip": one that starts more than ten minutes
            late does not run at all. "run": all run.
        busy: "skip": not while an earlier one still runs. "run": beside it.
    """
    newer = [other.due for other in others if mine.due < other.due <= now]
    if late == "latest" and newer:
        return f"a newer scheduled time is due already ({max(newer):%Y-%m-%d %H:%M} UTC)"
    if late == "skip" and now - mine.due > GRACE:
        return f"it starts {(now - mine.due).total_seconds() / 60:.0f} minutes late"
    # One that began only after this time was due sees that it is not the newest, and does not go on itself.
    before = [other.due for other in others if other.live and other.began and other.began < mine.due]
    if busy == "skip" and before:
        return f"the one of {max(before):%Y-%m-%d %H:%M} UTC still runs"
    return ""


def slot_of(flow_run: FlowRun) -> datetime | None:
    """The scheduled time that a flow run is for; None for one that a person or an event asked for."""
    if not flow_run.auto_scheduled or flow_run.expected_start_time is None:
        return None
    return flow_run.expected_start_time.astimezone(UTC)


def slot_name(name: str, slot: datetime | None, longest: int) -> str:
    """The name of what is made at a scheduled time: the same for the same time, whoever comes to it."""
    if slot is None:
        return name
    seconds = f"{slot:%S}" if slot.second else ""
    return fit_name(name, f"{slot:%Y%m%d-%H%M}{seconds}", longest=longest)


def this_flow_run() -> FlowRun:
    """The flow run around this, as the server knows it."""
    with get_client(sync_client=True) as client:
        return client.read_flow_run(UUID(str(runtime.flow_run.id)))


def skipped(flow_run: FlowRun, late: Late, busy: Busy) -> State[Any] | None:
    """The end of a flow run that is not wanted any more; None for one that is, or that no schedule made.

    One that has run before was asked for again by a person: it goes on, whatever came due since.
    """
    if flow_run.run_count > 1:
        return None
    why = _left_out(flow_run, late, busy)
    return Completed(name="Skipped", message=f"Left out: {why}.") if why else None


def _left_out(flow_run: FlowRun, late: Late, busy: Busy) -> str:
    slot, now = slot_of(flow_run), datetime.now(UTC)
    if slot is None or flow_run.deployment_id is None:
        return ""
    wanted = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[flow_run.deployment_id]),
        expected_start_time=FlowRunFilterExpectedStartTime(after_=slot - _LOOKED_AT, before_=now),
        id=FlowRunFilterId(not_any_=[flow_run.id]),
    )
    with get_client(sync_client=True) as client:
        found = client.read_flow_runs(flow_run_filter=wanted, sort=FlowRunSort.EXPECTED_START_TIME_DESC, limit=200)
    others = [Slot(due, _began(run), _lives(run)) for run in found if (due := slot_of(run)) is not None]
    return why_skip(Slot(slot), others, now, late, busy)


def _began(flow_run: FlowRun) -> datetime | None:
    return flow_run.start_time.astimezone(UTC) if flow_run.start_time else None


def _lives(flow_run: FlowRun) -> bool:
    return flow_run.state is not None and flow_run.state.is_running()
