"""A sweep's plan as it is on record, and the runs that its log's starts mean."""

from datetime import datetime
from typing import Any

from blocks.clusters.errors import NotFoundError, SlipwayError
from blocks.clusters.port import Cluster
from tasks.pod.trainers.adapter import Problem
from tasks.pod.trainers.toml_config import set_keys
from tasks.runs.claim import record_of
from tasks.runs.records import Dataset, PlanRecord, Record, Resolved, Source, Weights
from tasks.runs.request import ForkOf, RunRequest
from tasks.sweeps.log import Start, State, read_entry, replay
from tasks.sweeps.spec import SweepRequest


class Inputs(Record):
    """What trials read whose configs name this model and this dataset: staged once, before the first one.

    Args:
        model, data: as the configs name them.
    """

    model: str
    data: str | None
    weights: Weights
    dataset: Dataset | None = None


class SweepRecord(Record):
    """`plan.json`: what was decided when the sweep was planned."""

    sweep: str
    volume: str
    request: SweepRequest
    request_hash: str
    inputs: tuple[Inputs, ...]
    created_at: datetime
    version: str


def read_sweep(cluster: Cluster, volume: str, sweep: str) -> tuple[SweepRecord, State]:
    """A sweep's plan, and where it stands.

    Raises:
        NotFoundError: no such volume, or no such sweep; names those there are.
    """
    shown = cluster.call(volume, "sweeps.show", {"sweep": sweep})
    if shown["plan"] is None:
        known = ", ".join(s["sweep"] for s in cluster.call(volume, "sweeps.list", {})["sweeps"]) or "none"
        raise NotFoundError(f"Volume {volume} has no sweep {sweep!r}.", f"Sweeps there: {known}.")
    return read_shown(shown)


def read_shown(shown: dict[str, Any]) -> tuple[SweepRecord, State]:
    """The same, of what `sweeps.show` said."""
    record = SweepRecord.read(f"sweep {shown['sweep']}", shown["plan"])
    search = record.request.search
    turns = ([read_entry(entry) for entry in turn] for turn in shown["turns"])
    return record, replay(turns, State(search.sign, search.stop.min_delta))


def read_sweeps(cluster: Cluster, volume: str) -> tuple[list[tuple[SweepRecord, State]], dict[str, str]]:
    """The sweeps of a volume, oldest first, and sweep → what is wrong with its records."""
    answer = cluster.call(volume, "sweeps.list", {})
    found, damaged = [], dict(answer["damaged"])
    for shown in answer["sweeps"]:
        try:
            found.append(read_shown(shown))
        except SlipwayError as error:
            damaged[shown["sweep"]] = str(error)
    return found, damaged


def driven_at(shown: dict[str, Any]) -> datetime | None:
    """When somebody last drove a sweep, of what `sweeps.show` said; None if nobody ever did."""
    at = (shown.get("driver") or {}).get("at")
    return datetime.fromisoformat(at) if at else None


def config_of(request: SweepRequest, start: Start) -> dict[str, Any]:
    """The config of a trial's run.

    Raises:
        BadInputError: an axis leads through something that is no table.
    """
    steps = {} if start.max_steps is None else {request.search.steps_key: start.max_steps}
    return set_keys(request.base.config, {**start.point, **steps})


def problems_of(request: SweepRequest, config: dict[str, Any]) -> list[Problem]:
    return request.base.adapter.problems(config)


def run_request(request: SweepRequest, start: Start) -> RunRequest:
    """A trial's run as anybody could ask for it; a fork as `slipway fork` does."""
    changes: dict[str, Any] = {"run": start.run, "config": config_of(request, start)}
    if start.origin is not None:
        changes |= {"dataset": None, "fork_of": ForkOf(run=start.origin.run, step=start.origin.step)}
    return request.base.model_copy(update=changes)


def plan_of(record: SweepRecord, start: Start) -> PlanRecord:
    """The plan of a trial's run, with what was staged for the sweep.

    Args:
        start: one whose config has no problems.
    """
    request = run_request(record.request, start)
    needs = request.adapter.needs(request.config)
    inputs = next(i for i in record.inputs if (i.model, i.data) == (needs.model, needs.dataset))
    source = None
    if start.origin is not None:
        origin = start.origin
        source = Source(
            run=origin.run,
            path=origin.path,
            step=origin.step,
            fingerprint=origin.fingerprint,
            hold=f"holds/{start.run}/{origin.path.rsplit('/', 1)[-1]}",
        )
    return record_of(request, Resolved(weights=inputs.weights, dataset=inputs.dataset, source=source))
