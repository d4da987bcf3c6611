"""Names of flow runs and of the runs they make: the same on every retry, readable in the UI."""

from typing import Any, Literal
from uuid import UUID

from prefect import runtime
from prefect.client.schemas.objects import FlowRun

from blocks.clusters.names import fit_name
from tasks.runs.request import RUN_ID_LONGEST, run_id


def fork_name(name: str | None, run: str, step: int | Literal["latest"], trigger: str | None) -> str | None:
    """What a fork is called that a trigger asks for: the same for the same run, step and trigger. Otherwise its given
    name, or None."""
    return name or (fit_name(run, f"s{step}", trigger, longest=RUN_ID_LONGEST) if trigger else None)


def this_run(name: str | None, place: str) -> str:
    """The id of the run that the flow run around this makes at `place`."""
    return run_id(name, place, str(runtime.flow_run.root_flow_run_id or runtime.flow_run.id))


def flow_run_label() -> str:
    """What the UI calls a flow run: the flow, and the run or volume that it is about."""
    parameters = runtime.flow_run.parameters or {}
    flow = str(runtime.flow_run.flow_name)
    about = _given(parameters) or (this_run(None, flow) if flow in MAKES_RUNS else parameters.get("volume"))
    return f"{flow} {about}" if about else flow


def runs_made_by(flow: str, flow_run: FlowRun) -> list[str]:
    """The ids of the runs that a flow run makes, whether or not it has come to them."""
    name = _given(flow_run.parameters)
    root: UUID | str = flow_run.id
    return [run_id(f"{name}{suffix}" if name else None, place, str(root)) for place, suffix in MAKES_RUNS.get(flow, ())]


def _given(parameters: dict[str, Any]) -> str | None:
    """The name that a flow run's parameters come to; None where one is made of its id."""
    name = parameters.get("name")
    if trigger := parameters.get("trigger"):
        return fork_name(name, parameters["run"], parameters.get("step", "latest"), trigger)
    return name or None


MAKES_RUNS = {
    "finetune": (("finetune", ""),),
    "fork": (("fork", ""),),
    "pipeline": (("finetune", ""), ("fork", "-fork")),
}
"""Flow → the places at which it makes runs, with what is added to a given name."""
