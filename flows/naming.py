"""Names of flow runs and of the runs they make: the same on every retry, readable in the UI."""

from uuid import UUID

from prefect import runtime
from prefect.client.schemas.objects import FlowRun

from tasks.runs.request import run_id


def this_run(name: str | None, place: str) -> str:
    """The id of the run that the flow run around this makes at `place`."""
    return run_id(name, place, str(runtime.flow_run.root_flow_run_id or runtime.flow_run.id))


def flow_run_label() -> str:
    """What the UI calls a flow run: the flow, and the run or volume that it is about."""
    parameters = runtime.flow_run.parameters or {}
    flow = str(runtime.flow_run.flow_name)
    about = parameters.get("name") or (this_run(None, flow) if flow in MAKES_RUNS else parameters.get("volume"))
    return f"{flow} {about}" if about else flow


def runs_made_by(flow: str, flow_run: FlowRun) -> list[str]:
    """The ids of the runs that a flow run makes, whether or not it has come to them."""
    name = flow_run.parameters.get("name")
    root: UUID | str = flow_run.id
    return [run_id(f"{name}{suffix}" if name else None, place, str(root)) for place, suffix in MAKES_RUNS.get(flow, ())]


MAKES_RUNS = {
    "finetune": (("finetune", ""),),
    "fork": (("fork", ""),),
    "pipeline": (("finetune", ""), ("fork", "-fork")),
}
"""Flow → the places at which it makes runs, with what is added to a given name."""
