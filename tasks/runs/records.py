"""A run's records as models: what `tasks.pod.runs` returns."""

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from blocks.clusters.errors import SlipwayError
from blocks.clusters.job import JobStatus
from tasks.runs.request import RunRequest


class Record(BaseModel):
    """Read from a volume that a newer version may have written: unknown keys are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def read(cls, name: str, content: Any) -> Self:
        """What a program beside the data returned.

        Args:
            name: of what this is on record, for the message: "run a".

        Raises:
            SlipwayError: a record has other keys or values than those that were written.
        """
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            newer = [found for found in error.errors() if found["type"] == "extra_forbidden"]
            wrong = (newer or error.errors())[0]
            where = ".".join(str(part) for part in wrong["loc"])
            if newer:
                what = f"What is on record of {name} has {where}, which this version of Slipway does not know."
                raise SlipwayError(what, "Use the version that wrote it, or a newer one.") from None
            raise SlipwayError(
                f"What is on record of {name} is damaged: {where}: {wrong['msg']}.",
                "Restore it from a backup of the volume.",
            ) from None


class Download(Record):
    """What staging fetched over the network for a run: 0 bytes where the volume held the same files already."""

    bytes: int
    seconds: float


class Weights(Record):
    """HF-format weights on the volume. `repo` and `commit` are None for weights that people put there.

    Args:
        bytes: of all files.
        fingerprint: of what people put there, who may change it (`tasks.pod.weights.fingerprint`); None for a snapshot.
        download: None where they were staged before the run was asked for.
    """

    path: str
    repo: str | None = None
    commit: str | None = None
    bytes: int | None = None
    fingerprint: str | None = None
    download: Download | None = None


class Dataset(Record):
    path: str
    name: str | None = None
    version: str | None = None
    manifest_sha256: str | None = None


class Source(Record):
    """The checkpoint that a fork continues from, as it was when it was chosen.

    Args:
        trusted: what spoke against one that was `unknown`, and that a person has vouched for; None for a proven one.
    """

    run: str | None
    path: str
    step: int
    fingerprint: str
    hold: str
    mode: Literal["link", "copy"] = "link"
    trusted: str | None = None


class Resolved(Record):
    weights: Weights
    dataset: Dataset | None = None
    source: Source | None = None


class TrainerFacts(Record):
    """What is needed of the adapter to look at a run without it."""

    kind: str
    image: str | None
    checkpoint_format: str | None
    checkpoints: str
    metrics: str


class PlanRecord(Record):
    """`plan.json`: what was decided when the run was planned."""

    run: str
    volume: str
    request: RunRequest
    request_hash: str
    config: dict[str, Any]
    trainer: TrainerFacts
    resolved: Resolved
    max_steps: int | None
    created_at: datetime
    version: str


class Resume(Record):
    kind: Literal["own", "hold", "base"]
    path: str | None
    step: int
    fingerprint: str | None


class End(Record):
    """`attempts/<n>.end.json`: how an attempt ended."""

    state: Literal["completed", "failed", "stopped", "lost"]
    cause: str
    reason: str
    exit_code: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    image_digest: str | None = None
    last_lines: tuple[str, ...] = ()
    metrics: dict[str, Any] | None = None

    @property
    def infrastructure(self) -> bool:
        """The program is not to blame: a new attempt may well work."""
        return self.cause in ("evicted", "lost", "held")

    @classmethod
    def of(cls, status: JobStatus) -> "End":
        """The end of a job that is over."""
        return cls.model_validate(
            {
                "state": status.state.value,
                "cause": status.cause.value if status.cause else status.state.value,
                "reason": status.reason,
                "exit_code": status.exit_code,
                "started_at": status.started_at,
                "ended_at": status.ended_at,
                "image_digest": status.image_digest,
                "last_lines": status.last_lines,
            }
        )


class Hydration(Record):
    """`attempts/<n>.weights.json`: where an attempt read its weights, and what that took (see `tasks.pod.hydrate`).

    Args:
        asked, read_from: they differ where a fallback was taken; `why` says why.
        cached: they were on the node already.
        node: where it ran, as the cluster calls it; None where it does not say.
    """

    asked: str
    read_from: str
    why: str = ""
    bytes: int = 0
    files: int = 0
    seconds: float = 0
    cached: bool = False
    node: str | None = None
    checked: str | None = None
    workers: int | None = None
    latency_ms: float | None = None


class Attempt(Record):
    """`attempts/<n>.json`, with whether its job has started and how it ended.

    Args:
        preferred_nodes: those that had a copy of its weights, when it was prepared.
    """

    run: str
    attempt: int
    job: str | None
    resume: Resume
    set_aside: tuple[dict[str, str], ...] = ()
    trusted: tuple[str, ...] = ()
    preferred_nodes: tuple[str, ...] = ()
    version: str | None = None
    created_at: datetime
    started: bool = False
    started_at: datetime | None = None
    weights: Hydration | None = None
    end: End | None = None


class RunRecord(Record):
    """All that is on record of a run.

    Args:
        metrics: the newest line of its metrics file.
        deleted_at: when its files were deleted; None for a run that has them.
        followed_at: when somebody last said to be following it; trials are followed by their sweep, and say nothing.
    """

    run: str
    plan: PlanRecord
    attempts: tuple[Attempt, ...] = ()
    metrics: dict[str, Any] | None = None
    deleted_at: datetime | None = None
    followed_at: datetime | None = None

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None
