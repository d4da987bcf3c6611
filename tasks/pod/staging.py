"""What is staged, by name, and how far its job is, for those who wait for it."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from tasks.pod.area import is_owned
from tasks.pod.layout import Layout
from tasks.pod.records import read_if_there


def identity(*parts: str) -> str:
    """A name for what is staged, as a directory and part of a job name: readable, then a hash of exactly `parts`."""
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:10]
    readable = re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")[:40].strip("-")
    return f"{readable}-{digest}"


def snapshot_identity(repo_type: str, repo: str, commit: str) -> str:
    return identity(repo_type, repo.replace("/", "--"), commit[:40])


def weights_identity(name: str) -> str:
    return identity("weights", name)


def dataset_identity(name: str, version: str | None, source: dict[str, Any] | None = None) -> str:
    """Without a version, which then follows from the content, the source tells two stagings apart."""
    if version:
        return identity("dataset", name, version)
    return identity("dataset", name, "", json.dumps(source, sort_keys=True))


def progress(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """How far staging jobs are.

    Args:
        layout: the volume.
        arguments: "identities"; none or an empty list means every area that has not published.

    Returns:
        For each identity: "state" ("none": never started; "running"; "interrupted": its job is gone, the next one
        continues; "failed"; "published"), "bytes_done", "bytes_total", "files_done", "files_total", "what",
        "updated_at" (seconds since 1970).
    """
    asked = arguments.get("identities") or None
    names = asked or sorted(area.name for area in _areas(layout))
    notes = {name: _note_of(layout.staging(name)) for name in names}
    if asked:
        return notes
    return {name: note for name, note in notes.items() if note["state"] not in ("none", "published")}


def _areas(layout: Layout) -> list[Path]:
    home = layout.ours / "staging"
    return [area for area in home.iterdir() if area.is_dir()] if home.is_dir() else []


def _note_of(area: Path) -> dict[str, Any]:
    note = read_if_there(area / "progress.json")
    if note is None:
        return {"state": "none"}
    if note["state"] == "running" and not is_owned(area):
        return note | {"state": "interrupted"}
    return note
