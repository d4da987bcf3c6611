"""Finds flow runs whose process is gone although Prefect shows them as running: worker and process died together.

A flow that lives sends a heartbeat when it begins, and one every three minutes. One that never sent any (heartbeats can
be switched off) is left alone.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowFilter, FlowFilterName, FlowRunFilter, FlowRunFilterState
from prefect.client.schemas.filters import FlowRunFilterStateType as StateTypes
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Crashed

OURS = ("create-volume", "finetune", "fork", "grow-volume", "pipeline", "prune", "reconcile", "stage", "sweep")
SHORTEST_SILENCE = timedelta(minutes=10)
"""Three heartbeats that did not come."""

_HEARTBEAT = "prefect.flow-run.heartbeat"


def silent_flow_runs(client: SyncPrefectClient, silence: timedelta, flows: Sequence[str] = OURS) -> list[FlowRun]:
    """The flow runs that are said to run and have sent no heartbeat for so long."""
    running = FlowRunFilter(state=FlowRunFilterState(type=StateTypes(any_=[StateType.RUNNING])))
    named = FlowFilter(name=FlowFilterName(any_=list(flows)))
    now = datetime.now(UTC)
    found = client.read_flow_runs(flow_filter=named, flow_run_filter=running, limit=200)
    return [run for run in found if (heard := _heard(client, run, now)) is not None and now - heard > silence]


def mark_crashed(client: SyncPrefectClient, flow_run: FlowRun, silence: timedelta) -> None:
    """Have Prefect show it as crashed, so that it takes no place in its pool any more."""
    minutes = silence.total_seconds() / 60
    message = f"Its process is gone: no heartbeat for {minutes:.0f} minutes. Its jobs go on; reconcile follows them."
    client.set_flow_run_state(flow_run.id, Crashed(message=message), force=True)


def _heard(client: SyncPrefectClient, flow_run: FlowRun, now: datetime) -> datetime | None:
    """When its newest heartbeat came; None if it never sent one."""
    wanted = {
        "event": {"name": [_HEARTBEAT]},
        "resource": {"id": [f"prefect.flow-run.{flow_run.id}"]},
        "occurred": {"since": (now - timedelta(days=7)).isoformat(), "until": now.isoformat()},
        "order": "DESC",
    }
    answer = client.request("POST", "/events/filter", json={"filter": wanted, "limit": 1}).json()
    return datetime.fromisoformat(answer["events"][0]["occurred"]) if answer["events"] else None
