"""The tree of runs that continued from one another, as records and as text."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from blocks.clusters.port import Cluster
from tasks.runs.launch import checkpoints, read_run
from tasks.runs.records import Record
from tasks.runs.state import run_state


class Member(Record):
    """One run of a family.

    Args:
        parent: the run, or the path, that it continued from; None for base weights.
        step: of its source.
        source_there: its source's files are still where they were.
        held: and what it holds of them is.
        on_record: False for a parent whose records are gone.
        complete_steps: of its own that are there.
    """

    run: str
    parent: str | None = None
    step: int | None = None
    source: str | None = None
    fingerprint: str | None = None
    on_record: bool = True
    source_there: bool = False
    held: bool = False
    released: bool = False
    created_at: datetime | None = None
    deleted_at: datetime | None = None
    max_steps: int | None = None
    attempts: int = 0
    state: str | None = None
    complete_steps: tuple[int, ...] = ()

    @property
    def origin(self) -> str:
        """What it continued from, in words."""
        if self.parent is None:
            beside = "a checkpoint that is no run's" if "/" in self.run else "no longer on record"
            return "from base weights" if self.on_record else beside
        kept = "" if self.source_there else ", which is gone"
        held = ", held" if self.held else ", released" if self.released else ""
        return f"from step {self.step}{kept}{held}"

    @property
    def outcome(self) -> str:
        if not self.on_record:
            return ""
        steps = (
            f"complete steps {', '.join(map(str, self.complete_steps))}" if self.complete_steps else "no checkpoints"
        )
        if self.deleted_at:
            return f"deleted {self.deleted_at:%Y-%m-%d}"
        return f"{self.state}, {steps}" if self.state else steps

    @property
    def became(self) -> str:
        """What its records alone tell of that."""
        if not self.on_record:
            return ""
        if self.deleted_at:
            return f"deleted {self.deleted_at:%Y-%m-%d}"
        return self.state or ("going on" if self.attempts else "planned")


def on_record(cluster: Cluster, volume: str, run: str) -> list[Member]:
    """The runs that a run descends from, and all their forks, the first ancestor first: as their records tell it.

    Raises:
        ProgramError: no such run.
    """
    return [Member.model_validate(found) for found in cluster.call(volume, "runs.lineage", {"run": run})["runs"]]


def family(cluster: Cluster, volume: str, run: str) -> list[Member]:
    """The same, with the checkpoints that they have now, and what became of those that have not ended.

    Raises:
        ProgramError: no such run.
    """
    members = []
    for member in on_record(cluster, volume, run):
        if member.on_record and not member.deleted_at:
            record = read_run(cluster, volume, member.run)
            seen = checkpoints(cluster, record.plan)
            steps = tuple(c["step"] for c in seen if c["verdict"] == "complete" and c["step"] is not None)
            state = member.state or run_state(cluster, [record])[member.run].state
            member = member.model_copy(update={"complete_steps": steps, "state": state})
        members.append(member)
    return members


def tree(members: Sequence[Member]) -> Iterator[tuple[str, Member]]:
    """Each run below the one that it continued from, with the lines that lead to it."""
    for root in _roots(members):
        yield from _branch(root, members, "", "")


def branches(members: Sequence[Member]) -> Iterator[tuple[int, Member]]:
    """Each run below the one that it continued from, with how many there are above it."""
    waiting = [(0, root) for root in reversed(_roots(members))]
    while waiting:
        depth, member = waiting.pop()
        yield depth, member
        waiting += [(depth + 1, fork) for fork in reversed(_forks(member, members))]


def _roots(members: Sequence[Member]) -> list[Member]:
    known = {member.run for member in members}
    return [member for member in members if member.parent not in known]


def _forks(member: Member, members: Sequence[Member]) -> list[Member]:
    return [m for m in members if m.parent == member.run and m is not member]


def _branch(member: Member, members: Sequence[Member], lead: str, below: str) -> Iterator[tuple[str, Member]]:
    yield lead + member.run, member
    forks = _forks(member, members)
    for place, fork in enumerate(forks):
        last = place == len(forks) - 1
        yield from _branch(fork, members, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))
