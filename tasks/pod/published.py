"""What is published of a snapshot, as its manifest says: which files, whether all of them, whether they are there."""

from pathlib import Path
from typing import Any

from tasks.pod.files import File, Proof
from tasks.pod.hub import Source
from tasks.pod.layout import Layout
from tasks.pod.records import read_if_there, sync, write_once
from tasks.pod.selection import Selection


def published(layout: Layout, wanted: Source) -> dict[str, Any] | None:
    """The manifest of a snapshot, unless files that it lists are gone."""
    record = read_if_there(layout.snapshot_manifest(wanted.repo_type, wanted.repo, wanted.revision))
    return record if record and is_whole(layout, record) else None


def is_whole(layout: Layout, record: dict[str, Any]) -> bool:
    """Whether every file that a manifest lists is there, in its size."""
    base = layout.root / record["path"]
    for file in record["files"]:
        try:
            if (base / file["path"]).stat().st_size != file["size"]:
                return False
        except OSError:
            return False
    return True


def lacking(record: dict[str, Any], selection: Selection) -> list[dict[str, Any]]:
    """The files of the repository that are wanted and were left out when it was staged: path and size."""
    return [file for file in record.get("lacks") or () if selection.wants(file["path"])]


def manifest_entry(tree: Path, file: File, proof: Proof) -> dict[str, Any]:
    return {
        "path": file.path,
        "size": file.size,
        "sha256": proof.sha256,
        "git_sha1": None if file.sha256 else file.git_sha1,
        "xxh3": proof.xxh3,
        "mtime_ns": (tree / file.path).stat().st_mtime_ns,
    }


def file_of(entry: dict[str, Any]) -> File:
    """What a file must be, from its entry in a manifest."""
    git = entry.get("git_sha1")
    return File(entry["path"], entry["size"], None if git else entry["sha256"], git)


def write_manifest(layout: Layout, area: Path, wanted: Source, record: dict[str, Any]) -> None:
    """Write or replace the manifest: readers see the old one or the new one, also after a crash."""
    fresh = area / "manifest.new.json"
    fresh.unlink(missing_ok=True)
    write_once(fresh, record)
    manifest = layout.snapshot_manifest(wanted.repo_type, wanted.repo, wanted.revision)
    manifest.parent.mkdir(parents=True, exist_ok=True)
    fresh.replace(manifest)
    sync(manifest.parent)


def put_in_place(source: Path, root: Path, path: str) -> None:
    """Give a published tree one more file, or another one instead of the one of that name, in one step.

    Readers see the old bytes or the new ones; directories are writable only while it happens.
    """
    target = root / path
    above = [parent for parent in reversed(target.parents) if parent.is_relative_to(root)]
    for parent in above:
        parent.mkdir(exist_ok=True)
        parent.chmod(0o755)
    source.chmod(0o444)
    source.replace(target)
    for parent in reversed(above):
        sync(parent)
        parent.chmod(0o555)
