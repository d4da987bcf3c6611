"""Works out the plan of a run: every check that can be made without a job, each one line of the plan."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from blocks.clusters.errors import NotFoundError
from blocks.clusters.job import JobStatus
from blocks.clusters.names import check_name
from blocks.clusters.port import Cluster
from blocks.clusters.size import DEFAULT_SIZE, format_size, parse_size
from blocks.clusters.volume import Volume, VolumeStatus
from blocks.hub_access import HubAccess
from tasks.errors import EXPECTED
from tasks.plans.inputs import find_dataset, find_weights, settle_partial
from tasks.plans.origin import find_source
from tasks.plans.own_schema import check_own_schema
from tasks.plans.paths import check_paths
from tasks.plans.placement import check_placement
from tasks.plans.plan import Blocked, Item, Mark, Plan
from tasks.plans.sizes import check_checkpoints, count_parameters
from tasks.pod.checkpoints.evidence import plural
from tasks.pod.trainers.adapter import Needs
from tasks.runs.job import job_asked
from tasks.runs.launch import read_run
from tasks.runs.left_behind import left_behind, refuse_beside
from tasks.runs.records import Dataset, PlanRecord, Resolved, Source, Weights
from tasks.runs.request import RUN_ID_LONGEST, RunRequest, differences
from tasks.stages.resolve import SnapshotToStage, resolve
from tasks.stages.source import HubRef


class Checks:
    """The findings so far. One check that fails does not keep the others from being made."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    def add(self, mark: Mark, subject: str, detail: str, remedy: str = "") -> None:
        self.items.append(Item(subject=subject, mark=mark, detail=detail, remedy=remedy))

    @contextmanager
    def on(self, subject: str) -> Iterator[None]:
        try:
            yield
        except Blocked as blocked:
            self.items.append(blocked.item)
        except EXPECTED as error:
            self.items.append(Blocked.by(subject, error).item)


def make_plan(cluster: Cluster, hub: HubAccess, request: RunRequest) -> Plan:
    """Work out what a run would do and what stands in its way. Launches nothing, changes nothing."""
    checks = Checks()
    with checks.on(f"run {request.run}"):
        check_name("run", request.run)
        if len(request.run) > RUN_ID_LONGEST:
            raise Blocked(f"run {request.run}", f"a run's name has {RUN_ID_LONGEST} characters at most.", "Shorten it.")
    with checks.on(f"volume {request.volume}"):
        check_name("volume", request.volume)
    if checks.items:
        return Plan(request=request, items=tuple(checks.items))
    volume = _volume(cluster, request, checks)
    if any(item.mark is Mark.BLOCKED for item in checks.items):  # the volume can not be looked at
        return Plan(request=request, items=tuple(checks.items))
    left: list[JobStatus] = []
    with checks.on(f"run {request.run}"):  # before its record is looked for: a run that begins meanwhile has one
        left = left_behind(cluster, request.volume, request.run)
    if volume is not None and (record := _on_record(cluster, request, checks)):
        snapshot = None
        with checks.on("weights"):
            snapshot = _snapshot_on_record(cluster, hub, record)
        items = tuple(checks.items)
        return Plan(request=request, items=items, snapshot=snapshot, resolved=record.resolved, record=record)
    with checks.on(f"run {request.run}"):
        refuse_beside(request.volume, left)
    return _fresh(cluster, hub, request, volume, checks)


def _fresh(cluster: Cluster, hub: HubAccess, request: RunRequest, volume: Volume | None, checks: Checks) -> Plan:
    needs = _config(request, checks)
    where = volume.name if volume else None
    weights: Weights | None = None
    snapshot: SnapshotToStage | None = None
    dataset: Dataset | None = None
    source: Source | None = None
    if _capacity(cluster, request, checks):
        _preflight(cluster, request, volume, checks)
    if request.retention:
        checks.add(Mark.READY, "retention", f"`slipway prune` keeps {request.retention}, and the newest complete step")
    with checks.on("config"):
        check_paths(cluster, where, request)
    if needs is not None:
        with checks.on("config"):
            check_own_schema(request, needs, checks.add)
        parent = _parent(cluster, where, request)
        theirs = parent.request.adapter.needs(parent.config) if parent else None
        with checks.on("weights"):
            same = parent.resolved.weights if parent and theirs and theirs.model == needs.model else None
            weights, snapshot = find_weights(cluster, hub, where, needs.model, same, checks.add)
        with checks.on("dataset"):
            read = parent.resolved.dataset if parent and theirs and theirs.dataset == needs.dataset else None
            dataset = find_dataset(cluster, hub, where, needs, request.dataset, read, checks.add)
        with checks.on("checkpoint"):
            source = find_source(cluster, where, request, needs, checks.add)
    with checks.on("weights"):
        check_placement(cluster, request.weights, weights, checks.add)
    free = None
    with checks.on(f"volume {request.volume}"):
        free = _room(cluster, request, volume, snapshot, checks.add)
    if needs is not None and weights is not None and free is not None:
        with checks.on("checkpoints"):
            parameters = count_parameters(cluster, where, weights, snapshot)
            check_checkpoints(request, needs, parameters, source.step if source else 0, free, checks.add)
    blocked = any(i.mark is Mark.BLOCKED for i in checks.items)
    resolved = None
    if not blocked and weights is not None:
        resolved = Resolved(weights=weights, dataset=dataset, source=source)
    return Plan(request=request, items=tuple(checks.items), snapshot=snapshot, resolved=resolved)


def _volume(cluster: Cluster, request: RunRequest, checks: Checks) -> Volume | None:
    subject = f"volume {request.volume}"
    try:
        volume = cluster.volumes.get(request.volume)
    except NotFoundError:
        size = format_size(request.volume_size or parse_size(DEFAULT_SIZE))
        checks.add(Mark.TO_DO, subject, f"is created with {size}")
        return None
    if volume.status in (VolumeStatus.DELETING, VolumeStatus.FAILED):
        checks.add(Mark.BLOCKED, subject, f"is {volume.status}: {volume.reason}.", "Name another volume.")
    elif request.volume_size is not None and request.volume_size > volume.size:
        detail = f"has {format_size(volume.size)}; {format_size(request.volume_size)} are not given to one that exists."
        checks.add(Mark.WARNING, subject, detail, f"Use `slipway volumes grow {volume.name}`.")
    else:
        checks.add(Mark.READY, subject, f"{format_size(volume.size)}, {volume.status}")
    return volume


def _on_record(cluster: Cluster, request: RunRequest, checks: Checks) -> PlanRecord | None:
    shown = cluster.call(request.volume, "runs.show", {"run": request.run})
    if shown["plan"] is None:
        return None
    record = read_run(cluster, request.volume, request.run).plan
    if shown["deleted_at"]:
        detail = f"was deleted on {shown['deleted_at'][:10]}; its name stays taken, for those that were forked from it."
        checks.add(Mark.BLOCKED, f"run {request.run}", detail, "Choose another name.")
        return record
    if record.request_hash == request.request_hash():
        checks.add(Mark.READY, f"run {request.run}", f"was planned on {record.created_at:%Y-%m-%d %H:%M} UTC")
        if request.retention != record.request.retention:
            detail = f"the run keeps {record.request.retention or 'everything'}, as it was first asked for."
            remedy = f"Use `slipway prune {request.volume} --run {request.run}` to keep less, once."
            checks.add(Mark.WARNING, "retention", detail, remedy)
        return record
    changed = "; ".join(differences(record.request.asked(), request.asked()))
    checks.add(
        Mark.BLOCKED,
        f"run {request.run}",
        f"exists and was asked for otherwise ({changed}).",
        "Choose another name.",
    )
    return record


def _parent(cluster: Cluster, volume: str | None, request: RunRequest) -> PlanRecord | None:
    if volume is None or request.fork_of is None:
        return None
    shown = cluster.call(volume, "runs.show", {"run": request.fork_of.run})
    return PlanRecord.read(f"run {request.fork_of.run}", shown["plan"]) if shown["plan"] else None


def _snapshot_on_record(cluster: Cluster, hub: HubAccess, record: PlanRecord) -> SnapshotToStage | None:
    weights = record.resolved.weights
    if weights.repo is None or weights.commit is None:
        return None
    ref = HubRef(repo_type="model", repo=weights.repo, revision=weights.commit)
    snapshot = resolve(cluster, hub, record.volume, ref)
    if snapshot.partial:
        return settle_partial(cluster, hub, record.volume, snapshot, lambda mark, detail: None)
    return snapshot


def _config(request: RunRequest, checks: Checks) -> Needs | None:
    trainer = request.adapter
    problems = trainer.problems(request.config)
    for problem in problems:
        checks.add(Mark.BLOCKED, f"config {problem.key}", problem.reason, problem.remedy)
    if problems:
        return None
    needs = trainer.needs(request.config)
    steps = f"{needs.max_steps} steps" if needs.max_steps else "no last step"
    checks.add(Mark.READY, f"trainer {trainer.kind}", steps)
    asked = request.trainer.resources
    alone = needs.one_node or trainer.ranks(asked.gpus, asked.nodes) == trainer.ranks(asked.gpus, 1)
    if asked.nodes > 1 and alone:
        detail = f"runs on one node, and {asked.nodes} are asked for."
        checks.add(Mark.BLOCKED, f"trainer {trainer.kind}", detail, "Ask for one.")
    if needs.checkpoint_every == 0:
        detail = "saves no checkpoints: it can neither be resumed nor forked."
        checks.add(Mark.WARNING, f"trainer {trainer.kind}", detail, "Let the config save some.")
    elif needs.weights_only:
        detail = "saves weights without an optimizer: it can neither be resumed nor forked"
        checks.add(Mark.WARNING, f"trainer {trainer.kind}", detail, "Let the config save whole checkpoints.")
    if needs.gpus is not None and needs.gpus != asked.gpus:
        detail = f"asks for {plural(needs.gpus, 'GPU')}, and the trainer's resources give the run {asked.gpus}."
        checks.add(Mark.BLOCKED, "config GPUs", detail, "Set gpus in the trainer's resources to the same number.")
    return needs


def _capacity(cluster: Cluster, request: RunRequest, checks: Checks) -> bool:
    """Whether the cluster has in all what a run asks for, or may get it."""
    asked, there = request.trainer.resources, cluster.capacity()
    kinds = ", ".join(f"{n} {kind}" for kind, n in there.gpus.items()) or "none"
    count = there.gpus.get(asked.gpu_kind, 0) if asked.gpu_kind else max(there.gpus.values(), default=0)
    if not there.is_all and asked.gpus > count:
        detail = f"{asked.gpus} are asked for; which nodes there are, or may come, is not known"
        checks.add(Mark.READY, "GPUs", detail)
        return True
    if asked.gpus > count:
        what = f"{asked.gpus} {asked.gpu_kind or 'GPUs of one kind'}"
        detail = f"the run asks for {what}, cluster {cluster.name} has {kinds}."
        checks.add(Mark.BLOCKED, "GPUs", detail, "Ask for what is there, or name another cluster.")
        return False
    if asked.gpus:
        checks.add(Mark.READY, "GPUs", f"{asked.gpus} of {kinds}")
    if there.is_all and (asked.cpus > there.cpus or (asked.memory_bytes or 0) > there.memory_bytes):
        detail = f"the run asks for more than the {there.cpus:g} CPUs and {format_size(there.memory_bytes)} there are."
        checks.add(Mark.BLOCKED, "CPUs and memory", detail, "Ask for less.")
        return False
    return True


_MARKS = {"note": Mark.READY, "warning": Mark.WARNING, "blocked": Mark.BLOCKED}


def _preflight(cluster: Cluster, request: RunRequest, volume: Volume | None, checks: Checks) -> None:
    """What the cluster itself says to such a job."""
    size = request.volume_size or parse_size(DEFAULT_SIZE)
    with checks.on("job"):
        for found in cluster.preflight(job_asked(request), {} if volume else {request.volume: size}):
            checks.add(_MARKS[found.level], found.subject, found.detail, found.remedy)


def _room(
    cluster: Cluster,
    request: RunRequest,
    volume: Volume | None,
    snapshot: SnapshotToStage | None,
    add: Callable[..., None],
) -> int:
    """The bytes that are free once everything is staged."""
    needed = snapshot.missing_bytes if snapshot else 0
    if volume is None:
        free, of = request.volume_size or parse_size(DEFAULT_SIZE), "the new volume has"
    else:
        room = cluster.call(volume.name, "volume.probe", {"size_bytes": volume.capacity}, writable=True)
        free = room["free_bytes"]
        of = "are free on the volume" if room["first_full"] == "volume" else "are free on the disk under it"
    if needed > free:
        detail = f"{format_size(needed)} are to be staged and {format_size(free)} {of}."
        raise Blocked(f"volume {request.volume}", detail, "Grow it, or remove what is not needed.")
    if needed:
        add(Mark.READY, "room", f"{format_size(needed)} to stage, {format_size(free)} free")
    return free - needed
