"""Checks a staged snapshot byte by byte, and replaces what is bad: nothing else is fetched or touched."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tasks.pod.area import clear, require_space, staging_area
from tasks.pod.errors import NotThereError
from tasks.pod.fetch import Fetcher, left_to_fetch
from tasks.pod.files import File, Proof, prove
from tasks.pod.hub import Source
from tasks.pod.hubcache import name_revision, write_tree
from tasks.pod.layout import Layout
from tasks.pod.progress import Progress
from tasks.pod.published import file_of, manifest_entry, put_in_place, write_manifest
from tasks.pod.records import read_if_there
from tasks.pod.shared import manifests
from tasks.pod.snapshots import pinned
from tasks.pod.staging import snapshot_identity

_PARALLEL = min(4, os.cpu_count() or 1)


def verify(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Read every file of a snapshot. Run as a job.

    Args:
        layout: the volume.
        arguments: "repo_type", "repo", "commit", "repair" (fetch what is bad again from the Hub, and replace it, also
            where other snapshots share it by a hard link).

    Returns:
        "files" and "bytes" (that were read), "bad": a list of "path", "why" and "repaired".

    Raises:
        NotThereError: it is not staged.
        ChangedError, NoSpaceError, AccessError, UnreachableError: a repair failed; what was good is as it was.
    """
    wanted = pinned(arguments)
    with staging_area(layout, snapshot_identity(wanted.repo_type, wanted.repo, wanted.revision)) as area:
        record = read_if_there(layout.snapshot_manifest(wanted.repo_type, wanted.repo, wanted.revision))
        if record is None:
            raise NotThereError(f"The {wanted} is not staged at {wanted.revision}.", "Stage it.")
        final = layout.root / record["path"]
        with Progress(area, f"{wanted}, verifying", record["bytes"], len(record["files"])) as progress:
            with ThreadPoolExecutor(_PARALLEL) as pool:
                reasons = list(pool.map(lambda entry: _why_bad(final, entry, progress), record["files"]))
            bad = {entry["path"]: why for entry, why in zip(record["files"], reasons, strict=True) if why}
            if bad and arguments.get("repair"):
                _repair(layout, area, wanted, record, set(bad), progress)
            if arguments.get("repair"):
                _restore_listing(layout, area, wanted)
        clear(area)
    repaired = bool(arguments.get("repair"))
    listed = [{"path": path, "why": why, "repaired": repaired} for path, why in sorted(bad.items())]
    return {"files": len(record["files"]), "bytes": record["bytes"], "bad": listed}


def _why_bad(final: Path, entry: dict[str, Any], progress: Progress) -> str:
    path, file = final / entry["path"], file_of(entry)
    if not path.is_file():
        return "is missing"
    if path.is_symlink():
        return "is a symbolic link"
    if (size := path.stat().st_size) != file.size:
        return f"has {size} bytes and should have {file.size}"
    proof = prove(path, git=not file.sha256)
    progress.add(file.size)
    if not file.is_proven_by(proof) or proof.sha256 != entry["sha256"]:
        return "has other bytes than were staged"
    progress.finish_file()
    return ""


def _repair(
    layout: Layout, area: Path, wanted: Source, record: dict[str, Any], bad: set[str], progress: Progress
) -> None:
    files = [file_of(entry) for entry in record["files"] if entry["path"] in bad]
    tree = area / "tree"
    require_space(area, left_to_fetch(area, files))
    firsts = {file.key: file for file in files}
    fetched = Fetcher(wanted, area, progress).fetch({tree / file.path: file for file in firsts.values()})
    proofs: dict[str, Proof] = {}
    for file in files:
        source = tree / firsts[file.key].path
        proofs[file.path] = fetched[source]
        if not (tree / file.path).exists():
            (tree / file.path).parent.mkdir(parents=True, exist_ok=True)
            os.link(source, tree / file.path)
    final = layout.root / record["path"]
    entries = {file.path: manifest_entry(tree, file, proofs[file.path]) for file in files}
    shared = {file.path: _other_names(layout, final / file.path) for file in files}
    for file in files:
        for number, (root, path) in enumerate(shared[file.path]):
            spare = area / f"link.{number}"
            spare.unlink(missing_ok=True)
            os.link(tree / file.path, spare)
            put_in_place(spare, root, path)
        put_in_place(tree / file.path, final, file.path)
    record["files"] = [entries.get(entry["path"], entry) for entry in record["files"]]
    write_manifest(layout, area, wanted, record)


def _other_names(layout: Layout, damaged: Path) -> list[tuple[Path, str]]:
    """Where else the same damaged file is published: (root of the tree, path in it)."""
    try:
        status = damaged.lstat()
    except FileNotFoundError:
        return []
    found = []
    for record in manifests(layout, "snapshots") + manifests(layout, "datasets"):
        root = layout.root / record["path"]
        for entry in record["files"]:
            path = root / entry["path"]
            try:
                same = os.path.samestat(path.lstat(), status)
            except OSError:
                continue
            if same and path != damaged:
                found.append((root, entry["path"]))
    return found


def _restore_listing(layout: Layout, area: Path, wanted: Source) -> None:
    home = layout.repo(wanted.repo_type, wanted.repo)
    name_revision(home, wanted.revision, None, area)
    if (home / "trees" / f"{wanted.revision}.json").is_file():
        return
    from tasks.pod.resolve import resolve

    asked = {"repo_type": wanted.repo_type, "repo": wanted.repo, "revision": wanted.revision}
    write_tree(home, wanted.revision, [File.from_json(file) for file in resolve(layout, asked)["files"]], area)
