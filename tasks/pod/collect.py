"""Brings the files of a repository into a staging area, each by the cheapest way: kept, linked, or downloaded."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from tasks.pod.area import require_space
from tasks.pod.fetch import Fetcher, left_to_fetch
from tasks.pod.files import File, Proof, prove
from tasks.pod.hub import Source
from tasks.pod.layout import Layout
from tasks.pod.progress import Progress
from tasks.pod.shared import Shelf


@dataclass
class Collected:
    """The proof of every file by path, and how many bytes were fetched over the network and linked."""

    proofs: dict[str, Proof] = field(default_factory=dict)
    fetched: int = 0
    linked: int = 0


def collect(layout: Layout, area: Path, tree: Path, source: Source, files: list[File], progress: Progress) -> Collected:
    """Fill `tree` with `files`.

    Raises:
        NoSpaceError: before the first byte when the rest does not fit; also when the volume fills up on the way.
        ChangedError, AccessError, NotThereError, UnreachableError: see `Fetcher.fetch`.
    """
    tree.mkdir(parents=True, exist_ok=True)
    collected = Collected()
    shelf = Shelf(layout)
    missing: dict[str, list[File]] = {}
    for file in files:
        proof = _kept(file, tree / file.path)
        if proof is None and (proof := shelf.link(file, tree / file.path)):
            collected.linked += file.size
        if proof is None:
            missing.setdefault(file.key, []).append(file)
            continue
        collected.proofs[file.path] = proof
        progress.add(file.size)
        progress.finish_file()
    firsts = [same[0] for same in missing.values()]
    if not firsts:
        return collected
    require_space(area, left_to_fetch(area, firsts))
    proofs = Fetcher(source, area, progress).fetch({tree / file.path: file for file in firsts})
    for first, *others in missing.values():
        proof = proofs[tree / first.path]
        collected.proofs[first.path] = proof
        collected.fetched += first.size
        for other in others:  # the same bytes under another name
            (tree / other.path).parent.mkdir(parents=True, exist_ok=True)
            os.link(tree / first.path, tree / other.path)
            collected.proofs[other.path] = proof
            collected.linked += other.size
            progress.add(other.size)
            progress.finish_file()
    return collected


def _kept(file: File, target: Path) -> Proof | None:
    """What an earlier attempt finished: it was proven before it got its name, and is proven again."""
    if not target.is_file() or target.is_symlink():
        return None
    proof = prove(target, git=not file.sha256)
    if file.is_proven_by(proof):
        return proof
    target.unlink()
    return None
