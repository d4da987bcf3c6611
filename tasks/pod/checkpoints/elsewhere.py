"""What a run claims as its checkpoint and keeps somewhere else, by a link: it is not the run's to hold, to keep or to
continue, so nobody looks into it."""

from pathlib import Path

from tasks.pod.checkpoints import table
from tasks.pod.checkpoints.verdict import Checkpoint, Verdict
from tasks.pod.layout import real

ELSEWHERE = "a link leads out of the run's directory"
"""How the evidence against them begins."""


def leads_out(path: Path, home: Path) -> bool:
    """Whether a path in a run's directory is somewhere else, once links are followed; that directory may be one too."""
    return not real(path).is_relative_to(real(home.parent) / home.name)


def is_elsewhere(why: str) -> bool:
    """Whether that is the reason of a verdict."""
    return why.startswith(ELSEWHERE)


def elsewhere(path: Path, shown: str, step: int | None) -> Checkpoint:
    """The verdict on what leads out.

    Args:
        path: a step, or the directory of the steps.
        shown: its path in the result.
        step: what its name says.
    """
    why = f"{ELSEWHERE}, to {real(path)}: what is there can be neither held nor continued"
    return Checkpoint(shown, step, table.UNRECOGNISED, Verdict.UNKNOWN, why, False, 0, "")
