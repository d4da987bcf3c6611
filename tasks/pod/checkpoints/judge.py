"""The verdict on one step directory or file, whatever it holds: hostile content gives `unknown`, never an exception."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tasks.pod.checkpoints import fingerprint, names, table
from tasks.pod.checkpoints.deep import examine_apart
from tasks.pod.checkpoints.examine import examine
from tasks.pod.checkpoints.faults import UnclearError
from tasks.pod.checkpoints.format import Step
from tasks.pod.checkpoints.tree import Tree, scan
from tasks.pod.checkpoints.verdict import Checkpoint, Verdict
from tasks.pod.errors import NotThereError


def judge(path: Path, *, format: str | None = None, deep: bool = False) -> Checkpoint:  # noqa: A002
    """Judge one step directory, or a file that is a checkpoint.

    Args:
        path: it, or a link to it.
        format: a name from the table of formats; None to find it by content.
        deep: read every byte, in a process of its own that is bounded in time and memory.

    Returns:
        The verdict; its `path` is the name of the directory.

    Raises:
        NotThereError: nothing is there by that path.
        BadInputError: there is no such format.
    """
    if not path.exists():
        raise NotThereError(f"There is no checkpoint at {path}.", "List the run's checkpoints for those that it has.")
    path = path.parent.resolve() / path.name
    name = names.read(path.name, path.is_dir())
    return judge_step(path, path.name, name, format=format, deep=deep, siblings=lambda: _siblings(path, name))


def judge_step(
    path: Path,
    shown: str,
    name: names.Name | None,
    *,
    format: str | None = None,  # noqa: A002
    deep: bool = False,
    siblings: Callable[[], Sequence[Tree]] = tuple,
    tree: Tree | None = None,
) -> Checkpoint:
    """Judge a step whose name was read.

    Args:
        path: the directory or file.
        shown: its path in the result.
        name: what its name says; None if it is not called as a step.
        format: a name from the table of formats; None to find it by content.
        deep: read every byte, in a process of its own.
        siblings: the trees of the other steps beside it, oldest first.
        tree: its files, if they were just listed.
    """
    fixed = table.named(format) if format else None
    number = name.number if name else None
    nothing = Checkpoint(shown, number, format or table.UNRECOGNISED, Verdict.UNKNOWN, "", False, 0, "")
    try:
        tree = tree or scan(path)
    except OSError as error:
        return replace(nothing, why=f"it can not be listed: {error.strerror or error}")
    except UnclearError as error:
        return replace(nothing, why=str(error))
    step = Step(tree, number, name is not None, path.name, deep=False, fixed=fixed is not None, siblings=siblings)
    chosen, finding = examine(step, fixed)
    if deep and finding.verdict is Verdict.COMPLETE:
        finding = examine_apart(step, chosen, finding)
    mark = fingerprint.of(tree)
    if finding.verdict is Verdict.COMPLETE and not _unchanged(path, tree):
        finding = replace(finding, verdict=Verdict.UNKNOWN, why="its files changed while they were read")
    return Checkpoint(
        path=shown,
        step=number if finding.step is None else finding.step,
        format=finding.format or (chosen.name if chosen else table.UNRECOGNISED),
        verdict=finding.verdict,
        why=finding.why,
        resumable=finding.resumable and finding.verdict is not Verdict.INCOMPLETE,
        bytes=tree.size,
        fingerprint=mark,
        world_size=finding.world_size,
    )


def _unchanged(path: Path, tree: Tree) -> bool:
    try:
        return fingerprint.listed(scan(path)) == fingerprint.listed(tree)
    except (OSError, UnclearError):
        return False


def _siblings(path: Path, name: names.Name | None) -> list[Tree]:
    """The other steps in the same directory, oldest first."""
    if name is None:
        return []
    found: list[tuple[names.Name, Tree]] = []
    for other in path.parent.iterdir():
        read = names.read(other.name, other.is_dir()) if other != path else None
        if read and read.certain and other.is_dir():
            try:
                found.append((read, scan(other)))
            except (OSError, UnclearError):
                continue
    return [tree for _, tree in sorted(found, key=lambda pair: pair[0])]
