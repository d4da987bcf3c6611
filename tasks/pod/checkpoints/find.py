"""All checkpoints below a directory, each judged, oldest step first, and which is the newest complete one."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tasks.pod.checkpoints import fingerprint, names, table
from tasks.pod.checkpoints.elsewhere import elsewhere, leads_out
from tasks.pod.checkpoints.faults import UnclearError
from tasks.pod.checkpoints.judge import judge_step
from tasks.pod.checkpoints.tree import Tree, scan
from tasks.pod.checkpoints.verdict import Checkpoint, Report
from tasks.pod.errors import NotThereError

_LEVELS = 4
_NEIGHBOURS = 8
_UNCERTAIN = frozenset({".metadata", "metadata.json", "_CHECKPOINT_METADATA", "_METADATA", "commit_success.txt"})
"""What a directory with a bare number for a name has to hold before it is taken for a step."""
_HOMES = frozenset({"checkpoints", "checkpoint", "ckpt", "ckpts"})


@dataclass(frozen=True)
class _Candidate:
    path: Path
    shown: str
    home: str
    name: names.Name


def find(
    root: Path,
    *,
    format: str | None = None,  # noqa: A002
    deep: bool = False,
    known: Mapping[str, Checkpoint] | None = None,
    shown: str | None = None,
    home: Path | None = None,
) -> Report:
    """Find and judge the steps below a directory; if there are none, the directory itself where it is a checkpoint.

    Args:
        root: a run's directory, a trainer's output directory, or a directory of step directories.
        format: a name from the table of formats, for all of them; None to find each by content.
        deep: read every byte of those that are complete by their headers.
        known: earlier results by path; a step whose files have the names, sizes and times that its fingerprint says is
            not read again.
        shown: how the root is called in the report; as it was given if None.
        home: the directory of the run whose steps they are: what lies elsewhere, by a link, is `unknown`. None where
            they are nobody's.

    Raises:
        NotThereError: the root is no directory.
        BadInputError: there is no such format.
    """
    if not root.is_dir():
        raise NotThereError(f"There is no directory {root}.", "Name a run's or a trainer's output directory.")
    if format:
        table.named(format)
    candidates = sorted(_candidates(root), key=lambda c: (c.name, c.shown))
    away = [c for c in candidates if home and leads_out(c.path, home)]
    candidates = [c for c in candidates if c not in away]
    trees: dict[str, Tree] = {}
    for candidate in candidates:
        try:
            trees[candidate.shown] = scan(candidate.path)
        except (OSError, UnclearError):
            continue
    beside = _Neighbours(candidates, trees)
    judged: list[tuple[_Candidate, Checkpoint]] = []
    for candidate in candidates:
        tree = trees.get(candidate.shown)
        old = (known or {}).get(candidate.shown)
        if old and tree and fingerprint.same_listing(old.fingerprint, tree):
            checkpoint = old
        else:
            checkpoint = judge_step(
                candidate.path, candidate.shown, candidate.name,
                format=format, deep=deep, siblings=partial(beside.of, candidate), tree=tree,
            )  # fmt: skip
        judged.append((candidate, checkpoint))
    judged = _without_strangers(judged) + [(c, elsewhere(c.path, c.shown, c.name.number)) for c in away]
    if not judged:
        alone = judge_step(root.resolve(), ".", names.read(root.resolve().name, True), format=format, deep=deep)
        if alone.format != table.UNRECOGNISED and alone.bytes:
            judged = [(_Candidate(root, ".", "", names.Name()), alone)]
    judged.sort(key=_age)
    complete = [checkpoint.path for _, checkpoint in judged if checkpoint.complete]
    return Report(
        root=str(root) if shown is None else shown,
        latest_complete=complete[-1] if complete else None,
        checkpoints=tuple(checkpoint for _, checkpoint in judged),
    )


class _Neighbours:
    """The steps nearest to one in the same directory: enough to know what this trainer's steps look like."""

    def __init__(self, candidates: Sequence[_Candidate], trees: Mapping[str, Tree]) -> None:
        self._trees = trees
        self._homes: dict[str, list[_Candidate]] = {}
        self._places: dict[str, int] = {}
        for candidate in candidates:
            home = self._homes.setdefault(candidate.home, [])
            self._places[candidate.shown] = len(home)
            home.append(candidate)

    def of(self, candidate: _Candidate) -> list[Tree]:
        home, place = self._homes[candidate.home], self._places[candidate.shown]
        near = home[max(0, place - _NEIGHBOURS) : place] + home[place + 1 : place + 1 + _NEIGHBOURS]
        return [self._trees[c.shown] for c in near if c.name.certain and c.shown in self._trees]


def _age(pair: tuple[_Candidate, Checkpoint]) -> tuple[int, names.Name, bool, str]:
    candidate, checkpoint = pair
    step = -1 if checkpoint.step is None else checkpoint.step
    return step, candidate.name, checkpoint.resumable, checkpoint.path


def _candidates(root: Path) -> Iterator[_Candidate]:
    """Everything below the root that is called as a step. Links are taken for steps, but not looked into."""
    waiting = [(root, "", 0)]
    while waiting:
        directory, home, level = waiting.pop()
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue
        for entry in entries:
            try:
                is_directory = entry.is_dir()
            except OSError:  # a loop of links
                continue
            if entry.is_symlink() and not is_directory:
                continue  # Lightning's last.ckpt: a pointer, not a step
            name = names.read(entry.name, is_directory)
            if name and not name.certain and is_directory and not _holds_one(entry):
                name = None
            if name:
                yield _Candidate(Path(entry.path), home + entry.name, home, name)
            if not is_directory or entry.is_symlink() or (name and name.certain):
                continue
            if level < _LEVELS and names.may_contain_steps(entry.name):
                waiting.append((Path(entry.path), f"{home}{entry.name}/", level + 1))


def _holds_one(entry: os.DirEntry[str]) -> bool:
    if entry.name.endswith(".ckpt"):
        return True
    try:
        return any(e.name in _UNCERTAIN or e.name.startswith("mp_rank_") for e in os.scandir(entry.path))
    except OSError:
        return False


def _without_strangers(judged: list[tuple[_Candidate, Checkpoint]]) -> list[tuple[_Candidate, Checkpoint]]:
    """Leave out what is called as a step and holds something else, unless it lies where checkpoints lie."""
    homes = {c.home for c, checkpoint in judged if checkpoint.format != table.UNRECOGNISED and c.name.certain}
    kept = []
    for candidate, checkpoint in judged:
        stranger = checkpoint.format == table.UNRECOGNISED
        if stranger and not candidate.name.certain:
            continue
        home = candidate.home.rstrip("/").rpartition("/")[2]
        if stranger and candidate.home and candidate.home not in homes and home not in _HOMES:
            continue
        kept.append((candidate, checkpoint))
    return kept
