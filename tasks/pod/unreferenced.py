"""Snapshots and datasets that no run refers to: reported, and taken away when told to."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.pod import references, trash
from tasks.pod.area import is_owned
from tasks.pod.layout import Layout
from tasks.pod.shared import manifests
from tasks.pod.staging import snapshot_identity


def go_through(layout: Layout, grace: float, links: trash.Links, *, really: bool) -> Iterator[dict[str, Any]]:
    """Each that no run on record reads, oldest first: {"kind", "path", "bytes", "freed", "deleted", "why"}.

    Args:
        layout: the volume.
        grace: seconds after its staging in which one stays: its run may not be planned yet.
        really: take them away.
    """
    staged = [("snapshot", record) for record in manifests(layout, "snapshots")]
    staged += [("dataset", record) for record in manifests(layout, "datasets")]
    needs = references.needed(layout)
    for kind, record in sorted(staged, key=lambda pair: float(pair[1]["staged_at"])):
        path = layout.root / record["path"]
        age = time.time() - float(record["staged_at"])
        if needs.reads(record["path"]) or age < grace or _is_being_staged(layout, kind, record):
            continue
        item = {
            "kind": kind,
            "path": record["path"],
            "bytes": record["bytes"],
            "freed": links.free(path),
            "deleted": False,
            "why": f"no run refers to it; staged {age / 86400:.0f} days ago",
        }
        if really and not references.needed(layout).reads(record["path"]):
            if kind == "snapshot":
                remove_snapshot(layout, record, path)
            else:
                trash.take_away(layout, path)
                _remove_empty(path.parent)
            item["deleted"] = True
        yield item


def _is_being_staged(layout: Layout, kind: str, record: dict[str, Any]) -> bool:
    if kind == "dataset":
        return False  # a version never changes once it is there
    return is_owned(layout.staging(snapshot_identity(record["repo_type"], record["repo"], record["commit"])))


def remove_snapshot(layout: Layout, record: dict[str, Any], path: Path) -> None:
    """References first: one that leads nowhere makes huggingface_hub skip the whole repository. The manifest last: a
    killed removal is taken up by it."""
    home, commit = layout.repo(record["repo_type"], record["repo"]), record["commit"]
    for name in sorted((home / "refs").rglob("*")):
        if name.is_file() and name.read_text(encoding="utf-8", errors="replace").strip() == commit:
            name.unlink(missing_ok=True)
    trash.take_away(layout, path)
    (home / "trees" / f"{commit}.json").unlink(missing_ok=True)
    layout.snapshot_manifest(record["repo_type"], record["repo"], commit).unlink(missing_ok=True)
    if not any((home / "snapshots").glob("*")):
        for folder in ("snapshots", "trees", "refs"):
            for below in sorted((home / folder).rglob("*"), reverse=True):
                _remove_empty(below)
            _remove_empty(home / folder)
        _remove_empty(home)


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
