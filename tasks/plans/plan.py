"""A plan: what a run would do, what it needs and what stands in the way, before anything is launched."""

from enum import StrEnum

from blocks.clusters.errors import SlipwayError
from blocks.clusters.job import Frozen
from tasks.pod.errors import PodError
from tasks.runs.records import PlanRecord, Resolved
from tasks.runs.request import RunRequest
from tasks.stages.resolve import SnapshotToStage


class Mark(StrEnum):
    READY = "ready"
    TO_DO = "to do"
    WARNING = "warning"
    BLOCKED = "blocked"


class Item(Frozen):
    """One line of a plan.

    Args:
        subject: what it is about: "volume research", "config optim.lr".
        detail: what is so, or what will be done.
        remedy: for a warning or a block, what to do.
    """

    subject: str
    mark: Mark
    detail: str
    remedy: str = ""


class Findings(Frozen):
    """What was found before something is begun.

    Args:
        items: in the order in which they were looked at.
    """

    items: tuple[Item, ...]

    @property
    def blocked(self) -> tuple[Item, ...]:
        return tuple(i for i in self.items if i.mark is Mark.BLOCKED)

    @property
    def in_the_way(self) -> str:
        """What is blocked, as a sentence; "" if nothing is."""
        return f"it can not start; in the way: {', '.join(i.subject for i in self.blocked)}" if self.blocked else ""


class Plan(Findings):
    """What was found when a run was planned.

    Args:
        record: the plan on record, for a run that was asked for before.
        snapshot: the model to be staged; None for weights that are on the volume.
        resolved: None where something is blocked; the dataset's version may still be open (see `dataset_open`).
    """

    request: RunRequest
    snapshot: SnapshotToStage | None = None
    resolved: Resolved | None = None
    record: PlanRecord | None = None

    @property
    def conclusion(self) -> str:
        """The plan in one line."""
        if self.in_the_way:
            return self.in_the_way
        if self.record is not None:
            return "asked for before; it goes on, or is reused"
        to_do = [i.subject for i in self.items if i.mark is Mark.TO_DO]
        return f"nothing is in the way; first comes: {', '.join(to_do)}" if to_do else "nothing is in the way"

    def markdown(self) -> str:
        """The plan as a table for the Prefect UI."""
        rows = [f"| {i.mark} | {i.subject} | {i.detail}{f' **{i.remedy}**' if i.remedy else ''} |" for i in self.items]
        conclusion = self.conclusion[0].upper() + self.conclusion[1:]
        head = f"### Plan of run `{self.request.run}`\n\n{conclusion}.\n\n| | what | details |\n|---|---|---|\n"
        return head + "\n".join(row.replace("\n", " ") for row in rows)


class PlanError(SlipwayError):
    """Something stands in the way of a run; nothing was launched."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        lines = "; ".join(f"{i.subject}: {i.detail} {i.remedy}".strip() for i in plan.blocked)
        super().__init__(f"Run {plan.request.run!r} can not start. {lines}", "Nothing was launched.")


class Blocked(Exception):  # noqa: N818 - no error: a finding, collected into the plan
    """Raised by a check for what makes further checks pointless."""

    def __init__(self, subject: str, detail: str, remedy: str = "") -> None:
        super().__init__(subject, detail, remedy)
        self.item = Item(subject=subject, mark=Mark.BLOCKED, detail=detail, remedy=remedy)

    @classmethod
    def by(cls, subject: str, error: SlipwayError | PodError) -> "Blocked":
        return cls(subject, error.what, error.remedy)
