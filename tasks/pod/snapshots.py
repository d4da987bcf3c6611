"""Stages Hub snapshots: proven real files in Hub-cache layout, which any Hugging Face library reads offline."""

import os
import re
import time
from pathlib import Path
from typing import Any

from tasks.pod.area import clear, staging_area
from tasks.pod.collect import Collected, collect
from tasks.pod.errors import BadInputError
from tasks.pod.files import File
from tasks.pod.hub import Source, endpoint, source
from tasks.pod.hubcache import name_revision, prepare_cache, refs_of, write_tree
from tasks.pod.layout import Layout
from tasks.pod.progress import Progress
from tasks.pod.publish import freeze, set_aside
from tasks.pod.published import is_whole, lacking, manifest_entry, published, put_in_place, write_manifest
from tasks.pod.records import read_if_there, replace
from tasks.pod.selection import Selection
from tasks.pod.shared import manifests
from tasks.pod.staging import snapshot_identity

_COMMIT = re.compile(r"[0-9a-f]{40}")


def stage(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Download a snapshot unless it is there, prove every byte, and publish it. Run as a job.

    A killed attempt is continued; ten jobs for one snapshot cause one download.

    Args:
        layout: the volume.
        arguments: "repo_type", "repo", "commit" (40-hex), "revision" (the branch it was resolved from, or null: kept as
            a ref), "files" (optional: as `resolve` returned them; without them the Hub is asked), "allow" and "ignore"
            (optional: patterns of a `Selection`; what they leave out is added by a later request that wants it).

    Returns:
        As `state`, and "fetched_bytes", "linked_bytes" and "seconds": how the files were got.

    Raises:
        BadInputError: the patterns leave nothing.
        ChangedError: the Hub sends wrong bytes.
        NoSpaceError: too little room, before or during the download; what has arrived is kept.
        AccessError, NotThereError, UnreachableError: the Hub refuses or does not answer.
    """
    wanted, selection = pinned(arguments), Selection.of(arguments)
    revision = arguments.get("revision")
    if revision and not _COMMIT.fullmatch(revision):
        source(wanted.repo_type, wanted.repo, revision)
    got, begun = Collected(), time.monotonic()
    with staging_area(layout, snapshot_identity(wanted.repo_type, wanted.repo, wanted.revision)) as area:
        record = published(layout, wanted)
        if record and not lacking(record, selection):
            name_revision(layout.repo(wanted.repo_type, wanted.repo), wanted.revision, revision, area)
        else:
            whole = _files(layout, wanted, arguments.get("files"))
            held = {file["path"] for file in record["files"]} if record else set()
            files = [file for file in whole if file.path in held or selection.wants(file.path)]
            if not files:
                raise BadInputError(f"The patterns leave no file of the {wanted}.", "Check them against its files.")
            with Progress(
                area, f"{wanted} at {wanted.revision[:12]}", sum(file.size for file in files), len(files)
            ) as progress:
                finished = read_if_there(area / "manifest.json")
                if finished is None or not is_whole(layout, finished) or lacking(finished, selection):
                    tree = area / "tree"
                    _take_back(layout, wanted, files, held, tree)
                    got = collect(layout, area, tree, wanted, files, progress)
                    finished = _record(layout, wanted, tree, files, whole, got, time.monotonic() - begun)
                    _publish(layout, area, wanted, finished, whole, held)
                # refs only once the snapshot is there: one that leads nowhere makes huggingface_hub skip the repository
                name_revision(layout.repo(wanted.repo_type, wanted.repo), wanted.revision, revision, area)
                write_manifest(layout, area, wanted, finished)
        clear(area)
    seconds = round(time.monotonic() - begun, 3)
    how = {"fetched_bytes": got.fetched, "linked_bytes": got.linked, "seconds": seconds}
    return state(layout, arguments) | how


def state(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Whether a snapshot is staged, in milliseconds: its manifest is written last, so it proves the rest.

    Args:
        layout: the volume.
        arguments: "repo_type", "repo", "commit", and the patterns "allow" and "ignore" where not all of it is wanted.

    Returns:
        "staged" (all that is wanted), "path" (relative to the volume), "bytes" and "files" (what is there), "partial"
        (the repository has files that were left out), "lacks" and "lacks_bytes" (of those, what is wanted), and
        "staged_at" if anything is there.
    """
    wanted, selection = pinned(arguments), Selection.of(arguments)
    record = published(layout, wanted)
    path = layout.relative(layout.snapshot(wanted.repo_type, wanted.repo, wanted.revision))
    if record is None:
        return {"staged": False, "path": path, "bytes": 0, "files": 0, "partial": False, "lacks": 0, "lacks_bytes": 0}
    left_out = lacking(record, selection)
    return {
        "staged": not left_out,
        "path": path,
        "bytes": record["bytes"],
        "files": len(record["files"]),
        "partial": bool(record.get("lacks")),
        "lacks": len(left_out),
        "lacks_bytes": sum(file["size"] for file in left_out),
        "staged_at": record["staged_at"],
    }


def pinned(arguments: dict[str, Any]) -> Source:
    """Raises: BadInputError: no commit, or no name of a repository."""
    commit = arguments["commit"]
    if not _COMMIT.fullmatch(commit):
        raise BadInputError(f"{commit!r} is no 40-hex commit.", "Resolve the revision first.")
    return source(arguments["repo_type"], arguments["repo"], commit)


def _files(layout: Layout, wanted: Source, given: list[dict[str, Any]] | None) -> list[File]:
    if not given:
        from tasks.pod.resolve import resolve

        asked = {"repo_type": wanted.repo_type, "repo": wanted.repo, "revision": wanted.revision}
        given = resolve(layout, asked)["files"]
    return [File.from_json(file) for file in given]


def _take_back(layout: Layout, wanted: Source, files: list[File], held: set[str], tree: Path) -> None:
    """Files that a killed job had put in place and not written into the manifest yet are proven again, not fetched."""
    final = layout.snapshot(wanted.repo_type, wanted.repo, wanted.revision)
    for file in files if held else ():
        if file.path not in held and (final / file.path).is_file() and not (tree / file.path).exists():
            (tree / file.path).parent.mkdir(parents=True, exist_ok=True)
            os.link(final / file.path, tree / file.path)


def _record(
    layout: Layout, wanted: Source, tree: Path, files: list[File], whole: list[File], got: Collected, seconds: float
) -> dict[str, Any]:
    there = {file.path for file in files}
    return {
        "repo_type": wanted.repo_type,
        "repo": wanted.repo,
        "commit": wanted.revision,
        "endpoint": endpoint(),
        "path": layout.relative(layout.snapshot(wanted.repo_type, wanted.repo, wanted.revision)),
        "bytes": sum(file.size for file in files),
        "files": [manifest_entry(tree, file, got.proofs[file.path]) for file in files],
        "lacks": [{"path": file.path, "size": file.size} for file in whole if file.path not in there],
        "download": {"fetched_bytes": got.fetched, "linked_bytes": got.linked, "seconds": round(seconds, 3)},
        "staged_at": time.time(),
    }


def _publish(
    layout: Layout, area: Path, wanted: Source, record: dict[str, Any], whole: list[File], held: set[str]
) -> None:
    """Make a snapshot visible; one that is there in part gets what it lacks, and what it has stays where it is."""
    final, tree = layout.root / record["path"], area / "tree"
    prepare_cache(layout.hub, final.parent, area)
    # all files of the repository: it tells offline readers that a partial snapshot is not the whole one
    write_tree(layout.repo(wanted.repo_type, wanted.repo), wanted.revision, whole, area)
    replace(area / "manifest.json", record)
    if held:
        for file in record["files"]:
            if file["path"] not in held:
                put_in_place(tree / file["path"], final, file["path"])
        return
    layout.snapshot_manifest(wanted.repo_type, wanted.repo, wanted.revision).unlink(missing_ok=True)
    if os.path.lexists(final):  # what another tool left there, or a snapshot with files missing
        set_aside(layout, final)
    freeze(tree, final)


def list_staged(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Every staged snapshot: "snapshots", each with repo_type, repo, commit, refs, bytes, files, partial, path, …"""
    listed = []
    for record in manifests(layout, "snapshots"):
        if not (layout.root / record["path"]).is_dir():
            continue
        home = layout.repo(record["repo_type"], record["repo"])
        listed.append(
            {name: record[name] for name in ("repo_type", "repo", "commit", "bytes", "staged_at", "path")}
            | {"files": len(record["files"]), "refs": refs_of(home, record["commit"])}
            | {"partial": bool(record.get("lacks")), "lacks": len(record.get("lacks") or ())}
        )
    return {"snapshots": listed}
