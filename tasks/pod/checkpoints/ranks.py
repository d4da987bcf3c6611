"""Evidence from files that each rank writes: whether those of all ranks are there."""

import re
from collections.abc import Sequence

from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.tree import Tree


def numbers(tree: Tree, pattern: re.Pattern[str]) -> dict[int, str]:
    """Rank to file, for the files whose name the pattern matches; its first group is the rank."""
    return {int(found[1]): name for name in tree.files if (found := pattern.fullmatch(name))}


def check(files: dict[int, str], what: str, expected: int | None = None) -> int:
    """Check that ranks 0 to the last one have a file; return how many there are.

    Args:
        files: rank to file.
        what: how such a file is called in messages.
        expected: how many ranks there were; None where nothing tells.

    Raises:
        TornError: a rank's file is missing.
        UnclearError: there are files of more ranks than there were.
    """
    count = max(max(files, default=-1) + 1, expected or 0)
    if count > len(files) + 10_000:
        raise TornError(f"{what} of {count - len(files):,} ranks are missing")
    missing = [rank for rank in range(count) if rank not in files]
    if missing:
        shown = ", ".join(map(str, missing[:5])) + (", …" if len(missing) > 5 else "")
        raise TornError(f"{what} of rank {shown} is missing: {len(files)} of {count} are there")
    if expected is not None and len(files) > expected:
        raise UnclearError(f"{what} of {len(files)} ranks are there, and {expected} wrote the rest")
    return count


def agree(count: int, siblings: Sequence[Tree], pattern: re.Pattern[str], what: str) -> None:
    """Where nothing tells how many ranks there were, the steps beside it have to agree.

    Raises:
        UnclearError: the steps beside it have more, and none has as many.
    """
    others = [len(found) for tree in siblings if (found := numbers(tree, pattern))]
    if others and count not in others and max(others) > count:
        raise UnclearError(f"{what} of {count} ranks are there, and the steps beside it have {max(others)}")


def as_beside(tree: Tree, siblings: Sequence[Tree], wanted: Sequence[str]) -> None:
    """Check that files which this trainer need not write are there if the steps beside it have them.

    Raises:
        UnclearError: one is missing. Only unknown, because another attempt may have other settings.
    """
    for name in wanted:
        if not tree.has(name) and any(other.has(name) for other in siblings):
            raise UnclearError(f"{name} is missing, which other steps of this run have")
