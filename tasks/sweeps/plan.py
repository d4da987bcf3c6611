"""The plan of a sweep: what it would do, what it needs and what stands in its way, before any trial is launched."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from blocks.clusters.errors import ConflictError
from blocks.clusters.port import Cluster
from blocks.hub_access import HubAccess
from tasks.plans.check import make_plan
from tasks.plans.plan import Blocked, Findings, Item, Mark, Plan
from tasks.pod.errors import PodError
from tasks.pod.trainers.adapter import Needs
from tasks.runs.left_behind import refuse_beside, trials_left_behind
from tasks.runs.request import differences
from tasks.sweeps.axes import Point
from tasks.sweeps.log import Origin, Start, State
from tasks.sweeps.proposals import proposals
from tasks.sweeps.records import SweepRecord, config_of, problems_of, read_shown, run_request
from tasks.sweeps.rules import moves, run_name
from tasks.sweeps.spec import SweepRequest
from tasks.sweeps.stopping import describe

_SHOWN = 12


class SweepPlan(Findings):
    """What was found when a sweep was planned.

    Args:
        runs: plans of trials, one for each model and dataset that trials name: what has to be staged.
        first: the first trials.
        record: the plan on record, for a sweep that was asked for before.
    """

    request: SweepRequest
    runs: tuple[Plan, ...] = ()
    first: tuple[Start, ...] = ()
    record: SweepRecord | None = None

    @property
    def conclusion(self) -> str:
        found = "asked for before; it goes on, or is reused" if self.record else "nothing is in the way"
        return self.in_the_way or found

    def markdown(self) -> str:
        """The plan as tables for the Prefect UI."""
        text = f"### Plan of sweep `{self.request.sweep}`\n\n{self.conclusion[0].upper()}{self.conclusion[1:]}.\n\n"
        text += "| | what | details |\n|---|---|---|\n"
        text += "\n".join(f"| {i.mark} | {i.subject} | {f'{i.detail} {i.remedy}'.strip()} |" for i in self.items)
        keys = sorted({key for start in self.first for key in start.point})
        text += f"\n\n### The first trials\n\n| run | {' | '.join(keys)} |\n|---|{'---|' * len(keys)}\n"
        text += "\n".join(
            f"| {s.run} | {' | '.join(show_value(s.point.get(key)) for key in keys)} |" for s in self.first
        )
        return text


def show_value(value: Any) -> str:
    """A value of an axis, short."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def make_sweep_plan(cluster: Cluster, hub: HubAccess, request: SweepRequest) -> SweepPlan:
    """Work out what a sweep would do. Launches nothing, changes nothing."""
    items: list[Item] = []
    left = trials_left_behind(cluster, request.volume, request.sweep)  # before the record is: one may begin meanwhile
    record = _on_record(cluster, request, items)
    first = tuple(_first(request))
    if record is not None:
        return SweepPlan(request=request, items=tuple(items), first=first, record=record)
    try:
        refuse_beside(request.volume, left)
    except ConflictError as error:
        items.append(Blocked.by(f"sweep {request.sweep}", error).item)
    items += _axes(request)
    runs: list[Plan] = []
    if not items:
        runs = [make_plan(cluster, hub, run_request(request, start)) for start in _groups(request)]
        seen: set[Item] = set()
        for plan in runs:
            items += [_of_each_trial(i) for i in plan.items if i not in seen]
            seen |= set(plan.items)
        if not any(i.mark is Mark.BLOCKED for i in items):
            needs = request.base.adapter.needs(runs[0].request.config)
            items += [*_checkpoints(request, needs), *_size(cluster, request, needs)]
    return SweepPlan(request=request, items=tuple(items), runs=tuple(runs), first=first)


def _of_each_trial(item: Item) -> Item:
    """What a run's plan says of room is said of one trial."""
    if item.subject != "checkpoints" or item.mark is Mark.BLOCKED:
        return item
    return item.model_copy(update={"detail": f"of each trial: {item.detail}"})


def _on_record(cluster: Cluster, request: SweepRequest, items: list[Item]) -> SweepRecord | None:
    subject = f"sweep {request.sweep}"
    if all(volume.name != request.volume for volume in cluster.volumes.list()):
        return None
    shown = cluster.call(request.volume, "sweeps.show", {"sweep": request.sweep})
    if shown["plan"] is None:
        return None
    record, state = read_shown(shown)
    if record.request_hash != request.request_hash():
        changed = "; ".join(differences(record.request.asked(), request.asked()))
        detail = f"exists and was asked for otherwise ({changed})."
        items.append(Item(subject=subject, mark=Mark.BLOCKED, detail=detail, remedy="Choose another name."))
        return record
    over = sum(1 for node in state.nodes.values() if node.end)
    where = f"it is over: {state.over.reason}" if state.over else f"{over} of {len(state.nodes)} runs are over"
    detail = f"was planned on {record.created_at:%Y-%m-%d %H:%M} UTC; {where}"
    items.append(Item(subject=subject, mark=Mark.READY, detail=detail))
    return record


def _axes(request: SweepRequest) -> Iterator[Item]:
    """What the trainer says to the base config, and to each axis' choices and ends."""
    start = _start(request, {})
    known = {str(problem) for problem in _problems(request, start)}
    axes = request.search.axes
    for problem in _problems(request, start):
        if problem.key not in axes:
            yield Item(subject=f"config {problem.key}", mark=Mark.BLOCKED, detail=problem.reason, remedy=problem.remedy)
    for key, axis in axes.items():
        for value in axis.probes():
            try:
                found = [p for p in _problems(request, _start(request, {key: value})) if str(p) not in known]
            except PodError as error:
                yield Item(subject=f"axis {key}", mark=Mark.BLOCKED, detail=error.what, remedy=error.remedy)
                break
            if found:
                detail = f"with {show_value(value)}: {found[0].reason}"
                yield Item(subject=f"axis {key}", mark=Mark.BLOCKED, detail=detail, remedy=found[0].remedy)
                break


def _problems(request: SweepRequest, start: Start) -> list[Any]:
    return problems_of(request, config_of(request, start))


def _start(request: SweepRequest, point: Point) -> Start:
    search = request.search
    steps = {"halving": search.halving.steps(0), "pbt": search.pbt.max_steps}.get(search.method)
    return Start(run=run_name(request.sweep, 1), trial=1, point=point, max_steps=steps)


def _groups(request: SweepRequest) -> Iterator[Start]:
    """A trial for each model and dataset that the axes' choices lead to."""
    trainer, axes = request.base.adapter, request.search.axes

    def reads(point: Point) -> tuple[str, str | None]:
        config = config_of(request, _start(request, point))
        needs = trainer.needs(config)
        return needs.model, needs.dataset

    middle = {key: axis.probes()[0] for key, axis in axes.items()}
    moving = [
        [(key, value) for value in axis.choices]
        for key, axis in axes.items()
        if axis.choices and len({reads({**middle, key: value}) for value in axis.choices}) > 1
    ]
    found: dict[tuple[str, str | None], Point] = {}
    for values in product(*moving):
        point = {**middle, **dict(values)}
        found.setdefault(reads(point), point)
    yield from (_start(request, point) for point in found.values())


def _checkpoints(request: SweepRequest, needs: Needs) -> Iterator[Item]:
    search = request.search
    if needs.resume is not None:
        detail = "continues from a checkpoint, and trials begin from the base weights."
        yield Item(subject="config", mark=Mark.BLOCKED, detail=detail, remedy="Remove that from the config.")
    if search.method not in ("halving", "pbt"):
        return
    if needs.max_steps != (steps := _start(request, {}).max_steps):
        detail = f"takes its last step from elsewhere: {search.steps_key} is {steps} and it would train to "
        detail += f"{needs.max_steps or 'no last step'}."
        remedy = "Say with steps_key which key of the config it is."
        yield Item(subject="search steps_key", mark=Mark.BLOCKED, detail=detail, remedy=remedy)
    subject, remedy = f"trainer {request.base.trainer.kind}", "Set how often it saves in the config."
    if needs.checkpoint_every == 0:
        detail = f"saves no checkpoints, and {search.method} goes on from them."
        yield Item(subject=subject, mark=Mark.BLOCKED, detail=detail, remedy=remedy)
    elif search.method == "pbt" and (needs.checkpoint_every or search.pbt.max_steps) > search.pbt.interval:
        detail = f"saves less often than once in an interval of {search.pbt.interval} steps."
        yield Item(subject=subject, mark=Mark.BLOCKED, detail=detail, remedy=remedy)
    if search.method == "halving" and needs.schedule not in (None, "constant"):
        detail = f"{needs.schedule} is made for the steps of a rung, and a fork of it runs past its end."
        yield Item(subject="learning rate schedule", mark=Mark.WARNING, detail=detail, remedy=needs.schedule_remedy)


def _size(cluster: Cluster, request: SweepRequest, needs: Needs) -> Iterator[Item]:
    search, there, asked = request.search, cluster.capacity(), request.base.trainer.resources
    gpus = there.gpus.get(asked.gpu_kind, 0) if asked.gpu_kind else max(there.gpus.values(), default=0)
    fit = int(there.cpus / asked.cpus + 1e-9)
    fit = min(fit, gpus // asked.gpus) if asked.gpus else fit
    most = ((search.limits.gpu_hours, "GPU hours"), (search.limits.hours, "hours"))
    limit = "".join(f", at most {number:g} {what}" for number, what in most if number)
    text = f"{search.planned} trials by {search.method}, {search.limits.parallel} at once{limit}"
    if search.method == "halving":
        rungs = ", ".join(str(search.halving.steps(rung)) for rung in range(search.halving.rungs))
        text += f"; rungs at steps {rungs}, one in {search.halving.factor} goes on"
    elif search.method == "pbt":
        text += f"; {search.pbt.intervals} intervals of {search.pbt.interval} steps"
    elif needs.max_steps and "max_steps" not in search.axes:
        text += f"; {needs.max_steps} steps each"
    yield Item(subject="trials", mark=Mark.READY, detail=text)
    yield Item(subject="metric", mark=Mark.READY, detail=f"{search.metric}, {search.direction}d, the {search.take} one")
    if rules := describe(search):
        yield Item(subject="stop rules", mark=Mark.READY, detail=rules)
    if search.method == "pbt" and fit < search.pbt.population:
        detail = f"has room for {fit} trials at once, and a population of {search.pbt.population} trains together."
        remedy = "Ask for less for each trial, or for a smaller population."
        yield Item(subject=f"cluster {cluster.name}", mark=Mark.BLOCKED, detail=detail, remedy=remedy)
    elif fit < search.limits.parallel:
        detail = f"has room for {fit} trials at once; the others wait in its queue."
        yield Item(subject=f"cluster {cluster.name}", mark=Mark.WARNING, detail=detail)


def _first(request: SweepRequest) -> Iterator[Start]:
    """The first trials, as they will be drawn if none of them is over before the last of them begins."""
    parallel = request.search.limits.model_copy(update={"parallel": max(_SHOWN, request.search.limits.parallel)})
    search = request.search.model_copy(update={"limits": parallel})
    state, drawn = State(search.sign, search.stop.min_delta), proposals(search)
    for _ in range(_SHOWN):
        for entry in moves(request.sweep, search, state, drawn, _Nothing()):
            state.apply(entry)
            drawn.told(entry)
            if isinstance(entry, Start):
                yield entry


class _Nothing:
    """What is seen before anything runs."""

    def step(self, run: str) -> int:
        return 0

    def score(self, run: str, step: int) -> float | None:
        return None

    def newest(self, run: str, below: int) -> Origin | None:
        return None

    def diverged(self) -> dict[str, str]:
        return {}

    def compared(self) -> dict[str, dict[int, float]]:
        return {}
