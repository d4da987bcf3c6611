"""The learning rate over the steps: constant, or half a cosine down to zero."""

import math
from dataclasses import dataclass
from typing import Any

TYPES = ("constant", "cosine")


@dataclass(frozen=True)
class Schedule:
    """Saved with every checkpoint and taken over on resume, its length included, as torch's schedulers are.

    So a run that goes on to a later `max_steps` climbs up the other half of an old cosine: the trap that
    `[ckpt].skip_scheduler` is the remedy for.

    Args:
        type: one of `TYPES`.
        begin: the step after which it begins.
        steps: how long it is.
    """

    type: str
    begin: int = 0
    steps: int = 1

    def factor(self, step: int) -> float:
        """What the learning rate of a step is multiplied with; steps count from 1."""
        if self.type == "constant":
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * (step - 1 - self.begin) / self.steps))

    def as_json(self) -> dict[str, Any]:
        if self.type == "constant":
            return {"type": self.type}
        return {"type": self.type, "begin": self.begin, "steps": self.steps}

    @classmethod
    def resumed(cls, type: str, saved: dict[str, Any] | None, step: int, max_steps: int, *, skip: bool) -> "Schedule":  # noqa: A002
        """The schedule of a training that goes on.

        Args:
            type: the config's.
            saved: the checkpoint's; None in one that was saved before there were schedules.
            step: the checkpoint's.
            skip: begin a new one over the steps that are left.
        """
        if skip:
            return cls(type, step, max_steps - step)
        if saved and saved.get("type") == type:
            return cls(**saved)
        return cls(type, 0, max_steps)
