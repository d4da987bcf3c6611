"""What can be said of one checkpoint, with evidence: never guessed."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Checkpoint:
    """One step that a trainer saved.

    Args:
        path: relative to the root that was looked at, with forward slashes.
        step: the training step; None where neither name nor content tells it.
        format: a name from the table of formats, or "unrecognised".
        why: the evidence for the verdict, in words.
        resumable: holds optimizer state, so that training can go on; False for weights only.
        bytes: of all its files.
        fingerprint: hash over name, size, mtime and head and tail of every file; another one means other bytes.
        world_size: ranks that saved it; None where nothing tells.
    """

    path: str
    step: int | None
    format: str
    verdict: Verdict
    why: str
    resumable: bool
    bytes: int
    fingerprint: str
    world_size: int | None = None

    @property
    def complete(self) -> bool:
        return self.verdict is Verdict.COMPLETE

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Checkpoint":
        return cls(**{**record, "verdict": Verdict(record["verdict"])})


@dataclass(frozen=True)
class Report:
    """All checkpoints below one directory, oldest step first.

    Args:
        root: what was looked at, as it was named.
        latest_complete: path of the newest complete one; None if there is none.
    """

    root: str
    latest_complete: str | None
    checkpoints: tuple[Checkpoint, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "root": self.root,
            "latest_complete": self.latest_complete,
            "checkpoints": [c.to_json() for c in self.checkpoints],
        }
