"""Stages Hub snapshots: proven real files in Hub-cache layout, which any Hugging Face library reads offline."""

import os
import re
import time
from pathlib import Path
from typing import Any

from tasks.pod.area import clear, staging_area
from tasks.pod.collect import collect
from tasks.pod.errors import BadInputError
from tasks.pod.files import File, Proof
from tasks.pod.hub import Source, endpoint, source
from tasks.pod.hubcache import name_revision, prepare_cache, refs_of, write_tree
from tasks.pod.layout import Layout
from tasks.pod.progress import Progress
from tasks.pod.publish import freeze, set_aside
from tasks.pod.records import read_if_there, replace, write_once
from tasks.pod.shared import manifests
from tasks.pod.staging import snapshot_identity

_COMMIT = re.compile(r"[0-9a-f]{40}")


def stage(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Download a snapshot unless it is there, prove every byte, and publish it. Run as a job.

    A killed attempt is continued; ten jobs for one snapshot cause one download.

    Args:
        layout: the volume.
        arguments: "repo_type", "repo", "commit" (40-hex), "revision" (the branch it was resolved from, or null: kept as
            a ref), "files" (optional: as `resolve` returned them; without them the Hub is asked).

    Returns:
        As `state`, and "fetched_bytes" and "linked_bytes": how the files were got.

    Raises:
        ChangedError: the Hub sends wrong bytes.
        NoSpaceError: too little room, before or during the download; what has arrived is kept.
        AccessError, NotThereError, UnreachableError: the Hub refuses or does not answer.
    """
    wanted = _pinned(arguments)
    revision = arguments.get("revision")
    if revision and not _COMMIT.fullmatch(revision):
        source(wanted.repo_type, wanted.repo, revision)
    with staging_area(layout, snapshot_identity(wanted.repo_type, wanted.repo, wanted.revision)) as area:
        got = {"fetched_bytes": 0, "linked_bytes": 0}
        if _published(layout, wanted):
            name_revision(layout.repo(wanted.repo_type, wanted.repo), wanted.revision, revision, area)
        else:
            files = _files(layout, wanted, arguments.get("files"))
            with Progress(
                area, f"{wanted} at {wanted.revision[:12]}", sum(file.size for file in files), len(files)
            ) as progress:
                record = read_if_there(area / "manifest.json")
                if record is None or not _is_whole(layout, record):
                    tree = area / "tree"
                    collected = collect(layout, area, tree, wanted, files, progress)
                    got = {"fetched_bytes": collected.fetched, "linked_bytes": collected.linked}
                    record = _publish(layout, area, wanted, tree, files, collected.proofs)
                _announce(layout, area, wanted, record, revision)
        clear(area)
    return state(layout, arguments) | got


def state(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Whether a snapshot is staged, in milliseconds: its manifest is written last, so it proves the rest.

    Args:
        layout: the volume.
        arguments: "repo_type", "repo", "commit".

    Returns:
        "staged", "path" (relative to the volume), "bytes", "files" (their number), "staged_at" if staged.
    """
    wanted = _pinned(arguments)
    record = _published(layout, wanted)
    path = layout.relative(layout.snapshot(wanted.repo_type, wanted.repo, wanted.revision))
    if record is None:
        return {"staged": False, "path": path, "bytes": 0, "files": 0}
    return {
        "staged": True,
        "path": path,
        "bytes": record["bytes"],
        "files": len(record["files"]),
        "staged_at": record["staged_at"],
    }


def list_staged(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Every staged snapshot: "snapshots", each with repo_type, repo, commit, refs, bytes, files, staged_at, path."""
    listed = []
    for record in manifests(layout, "snapshots"):
        if not (layout.root / record["path"]).is_dir():
            continue
        home = layout.repo(record["repo_type"], record["repo"])
        listed.append(
            {name: record[name] for name in ("repo_type", "repo", "commit", "bytes", "staged_at", "path")}
            | {"files": len(record["files"]), "refs": refs_of(home, record["commit"])}
        )
    return {"snapshots": listed}


def _pinned(arguments: dict[str, Any]) -> Source:
    commit = arguments["commit"]
    if not _COMMIT.fullmatch(commit):
        raise BadInputError(f"{commit!r} is no 40-hex commit.", "Resolve the revision first.")
    return source(arguments["repo_type"], arguments["repo"], commit)


def _published(layout: Layout, wanted: Source) -> dict[str, Any] | None:
    """The manifest of a snapshot, unless files that it lists are gone."""
    record = read_if_there(layout.snapshot_manifest(wanted.repo_type, wanted.repo, wanted.revision))
    return record if record and _is_whole(layout, record) else None


def _is_whole(layout: Layout, record: dict[str, Any]) -> bool:
    base = layout.root / record["path"]
    for file in record["files"]:
        try:
            if (base / file["path"]).stat().st_size != file["size"]:
                return False
        except OSError:
            return False
    return True


def _files(layout: Layout, wanted: Source, given: list[dict[str, Any]] | None) -> list[File]:
    if not given:
        from tasks.pod.resolve import resolve

        asked = {"repo_type": wanted.repo_type, "repo": wanted.repo, "revision": wanted.revision}
        given = resolve(layout, asked)["files"]
    return [File.from_json(file) for file in given]


def _publish(
    layout: Layout, area: Path, wanted: Source, tree: Path, files: list[File], proofs: dict[str, Proof]
) -> dict[str, Any]:
    final = layout.snapshot(wanted.repo_type, wanted.repo, wanted.revision)
    record = {
        "repo_type": wanted.repo_type,
        "repo": wanted.repo,
        "commit": wanted.revision,
        "endpoint": endpoint(),
        "path": layout.relative(final),
        "bytes": sum(file.size for file in files),
        "files": [_manifest_entry(tree, file, proofs[file.path]) for file in files],
        "staged_at": time.time(),
    }
    prepare_cache(layout.hub, final.parent, area)
    write_tree(layout.repo(wanted.repo_type, wanted.repo), wanted.revision, files, area)
    replace(area / "manifest.json", record)
    layout.snapshot_manifest(wanted.repo_type, wanted.repo, wanted.revision).unlink(missing_ok=True)
    if os.path.lexists(final):  # what another tool left there, or a snapshot with files missing
        set_aside(layout, final)
    freeze(tree, final)
    return record


def _manifest_entry(tree: Path, file: File, proof: Proof) -> dict[str, Any]:
    return {
        "path": file.path,
        "size": file.size,
        "sha256": proof.sha256,
        "git_sha1": None if file.sha256 else file.git_sha1,
        "mtime_ns": (tree / file.path).stat().st_mtime_ns,
    }


def _announce(layout: Layout, area: Path, wanted: Source, record: dict[str, Any], revision: str | None) -> None:
    # refs only once the snapshot is there: one that leads nowhere makes huggingface_hub skip the whole repository
    name_revision(layout.repo(wanted.repo_type, wanted.repo), wanted.revision, revision, area)
    manifest = layout.snapshot_manifest(wanted.repo_type, wanted.repo, wanted.revision)
    write_once(manifest, record)
