"""Which names are a step's. Anchored: temporary, backup and set-aside copies carry a step's name somewhere in theirs,
and a copy must never be chosen."""

import re
from dataclasses import dataclass

_NUMBER = r"0*([0-9]{1,18})"
_STEPS = re.compile(rf"(?:step|checkpoint|iter|global_step)(?:-|_|=)?{_NUMBER}")
_SAVES = re.compile(rf"(?:checkpoint_|epoch[_-]){_NUMBER}")
_NUMBERS = re.compile(rf"(?:[A-Za-z][A-Za-z0-9]*_)?{_NUMBER}")
_LIGHTNING = re.compile(
    rf"(?:[^/]*[-_])?step={_NUMBER}(?:\.0+)?(?:-[A-Za-z_]\w*=[-+0-9.e]+)*(?:-last)?(?:-v([0-9]{{1,9}}))?"
)
_COPY = re.compile(r"(?:^|[._-])(?:tmp|temp|backup|bak|old|unfinished)(?:[._-]|$)|^\.", re.IGNORECASE)
_LIKE_A_STEP = re.compile(r"(?:step|checkpoint|iter|epoch)[-_=]?[0-9]|tmp|-unfinished$", re.IGNORECASE)
NEVER_LOOKED_INTO = frozenset({"broadcasts", "rollouts", "node_modules", "__pycache__", "wandb"})
"""Directories with step directories that are no checkpoints (prime-rl's), or with many files and none of ours."""


@dataclass(frozen=True, order=True)
class Name:
    """What the name of a step says.

    Args:
        step: the training step; -1 if the name does not tell it.
        ordinal: the count of saves or epochs; -1 if it tells none.
        version: of clashing names, the later is the larger.
        certain: False if only the content can tell that it is a checkpoint.
    """

    step: int = -1
    ordinal: int = -1
    version: int = -1
    certain: bool = True

    @property
    def number(self) -> int | None:
        return None if self.step < 0 else self.step


def read(name: str, is_directory: bool) -> Name | None:
    """What a file's or directory's name says, None if no trainer's step is called so.

    `checkpoint_7` is accelerate's seventh save and `epoch_7` torchtune's epoch: neither is a training step.
    """
    if not is_directory and not name.endswith(".ckpt"):
        return None
    stem = name.removesuffix(".ckpt")
    if found := _LIGHTNING.fullmatch(stem):
        return None if _COPY.search(stem) else Name(int(found[1]), version=int(found[2] or -1))
    if not is_directory:
        return None if _COPY.search(stem) else Name(certain=False)
    if found := _SAVES.fullmatch(stem):
        return Name(ordinal=int(found[1]))
    if found := _STEPS.fullmatch(stem):
        return Name(int(found[1]))
    if found := _NUMBERS.fullmatch(stem):
        return Name(int(found[1]), certain=False)
    if _COPY.search(stem):
        return None
    return Name(certain=False) if name.endswith(".ckpt") or name == "release" else None


def may_contain_steps(name: str) -> bool:
    """Whether a directory that is no step is looked into: not where it looks like the copy of one, or is hidden."""
    return not name.startswith(".") and name not in NEVER_LOOKED_INTO and not _LIKE_A_STEP.search(name)
