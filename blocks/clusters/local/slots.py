"""Who gets the machine's CPUs, memory and GPUs: all or none, first submitted, first served. Taken by the supervisors.

A claim counts for as long as its job lives, so nothing has to be given back after a crash. Nobody overtakes on what
an earlier job waits for, but a job that needs none of it goes ahead. Free of everything outside the standard library,
because the supervisor starts with it.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from blocks.clusters.local.files import locked, read_json, write_json
from blocks.clusters.local.place import Place


@dataclass(frozen=True)
class Room:
    """What a machine has in all.

    Args:
        cpus: cores.
        memory_bytes: None for a machine on which nobody counts.
        gpus: GPU kind → count. The kinds come in the order of the GPUs' indices.
    """

    cpus: float
    memory_bytes: int | None
    gpus: dict[str, int]

    def indices(self, kind: str) -> list[int]:
        """The indices of the GPUs of one kind."""
        kinds = list(self.gpus)
        first = sum(self.gpus[k] for k in kinds[: kinds.index(kind)])
        return list(range(first, first + self.gpus[kind]))


@dataclass(frozen=True)
class Claim:
    """What one job takes or waits for.

    Args:
        job: its name.
        submitted: unix time: the place in the queue.
        gpu_kind: None for any, but all of one.
        granted: whether it has it.
        indices: the GPUs it has.
    """

    job: str
    submitted: float
    cpus: float = 0
    memory_bytes: int = 0
    gpus: int = 0
    gpu_kind: str | None = None
    granted: bool = False
    indices: tuple[int, ...] = field(default=())


def claim(place: Place, wanted: Claim, room: Room) -> Claim | str:
    """Take what is wanted if its turn has come and it is free; else say what it waits for.

    Args:
        place: the job's, which holds the claim from now on, granted or waiting.
        wanted: the claim, not granted.
        room: what the machine has.
    """
    with locked(place.allocation_lock):
        answer = decide(wanted, _living(place), room)
        if isinstance(answer, Claim) or not place.claim.exists():
            write_json(place.claim, asdict(answer if isinstance(answer, Claim) else wanted))
    return answer


def decide(wanted: Claim, others: Iterable[Claim], room: Room) -> Claim | str:
    """The rule of `claim`, without the files.

    Args:
        wanted: a claim that is not granted.
        others: the claims of other jobs that live, granted or waiting.
        room: what the machine has.
    """
    others = sorted(others, key=lambda other: (not other.granted, other.submitted, other.job))
    before = [o for o in others if o.granted or (o.submitted, o.job) < (wanted.submitted, wanted.job)]
    cpus, memory = room.cpus, room.memory_bytes
    free = {kind: set(room.indices(kind)) for kind in room.gpus}
    for other in before:
        cpus -= other.cpus
        memory = None if memory is None else memory - other.memory_bytes
        taken = set(other.indices) if other.granted else _pick(other, free, room)
        free = {kind: indices - taken for kind, indices in free.items()}
    kinds = [wanted.gpu_kind] if wanted.gpu_kind else list(room.gpus)
    if wanted.cpus > cpus + 1e-9:
        return _reason(f"{wanted.cpus:g} of {room.cpus:g} CPUs", [o for o in before if o.cpus])
    if memory is not None and wanted.memory_bytes > memory:
        return _reason("memory", [o for o in before if o.memory_bytes])
    if not wanted.gpus:
        return replace(wanted, granted=True)
    for kind in kinds:
        if len(free.get(kind, ())) >= wanted.gpus:
            return replace(wanted, granted=True, indices=tuple(sorted(free[kind])[: wanted.gpus]))
    total = sum(room.gpus.get(kind, 0) for kind in kinds)
    rivals = [o for o in before if o.gpus and (not o.gpu_kind or o.gpu_kind in kinds)]
    return _reason(f"{wanted.gpus} of {total} {wanted.gpu_kind or ''} GPUs".replace("  ", " "), rivals)


def _pick(waiting: Claim, free: dict[str, set[int]], room: Room) -> set[int]:
    """What is kept free for an earlier job that waits: as much as there is of what it wants."""
    kinds = [waiting.gpu_kind] if waiting.gpu_kind else [k for k, n in room.gpus.items() if n >= waiting.gpus]
    best = max((free.get(kind, set()) for kind in kinds), key=len, default=set())
    return set(sorted(best)[: waiting.gpus])


def _reason(what: str, before: list[Claim]) -> str:
    holders = [o.job for o in before if o.granted]
    waiting = [o.job for o in before if not o.granted]
    held = f"held by {_jobs(holders)}" if holders else ""
    ahead = f"wanted before it by {_jobs(waiting)}" if waiting else ""
    return f"waits for {what}: " + ", ".join(part for part in (held, ahead) if part)


def _jobs(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:4])
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"job{'s' if len(names) > 1 else ''} {shown}{more}"


def _living(place: Place) -> list[Claim]:
    """The claims of the other jobs that live; those of dead ones are removed."""
    found = []
    for path in place.claim.parent.glob("[!.]*.json"):
        if path == place.claim:
            continue
        owner, _, name = path.stem.partition(".")
        if Place(place.root, owner, name).lives():
            content: dict[str, Any] | None = read_json(path)
            if content is not None:
                found.append(Claim(**{**content, "indices": tuple(content["indices"])}))
        else:
            path.unlink(missing_ok=True)
    return found
