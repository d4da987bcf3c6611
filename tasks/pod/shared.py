"""Files that the volume already holds: the same bytes in another revision or repository cost a link, not a download."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.pod.errors import ChangedError
from tasks.pod.files import File, Proof, prove
from tasks.pod.layout import Layout
from tasks.pod.records import read_record


@dataclass(frozen=True)
class Held:
    """A published file, as its manifest describes it."""

    path: Path
    size: int
    sha256: str
    git_sha1: str | None
    mtime_ns: int
    xxh3: str


class Shelf:
    """Every published file of a volume, by hash, as the manifests of snapshots and datasets list them."""

    def __init__(self, layout: Layout) -> None:
        self._held: dict[str, list[Held]] = {}
        for record in manifests(layout, "snapshots") + manifests(layout, "datasets"):
            base = layout.root / record["path"]
            for file in record["files"]:
                held = Held(
                    path=base / file["path"],
                    size=file["size"],
                    sha256=file["sha256"],
                    git_sha1=file.get("git_sha1"),
                    mtime_ns=file.get("mtime_ns", 0),
                    xxh3=file.get("xxh3", ""),
                )
                self._held.setdefault(f"sha256:{held.sha256}", []).append(held)
                if held.git_sha1:
                    self._held.setdefault(f"git:{held.git_sha1}", []).append(held)

    def link(self, file: File, target: Path) -> Proof | None:
        """Hard-link a held file with the bytes of `file` to `target`; None if there is none.

        A file that is not as it was when it was published (another size or mtime) is read before it is believed.
        """
        for held in self._held.get(file.key, []):
            proof = _still_proven(held, file)
            if proof is None:
                continue
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(held.path, target)
            except OSError:  # gone since, too many links, or a file of somebody else: the next one may do
                continue
            return proof
        return None


def manifests(layout: Layout, kind: str) -> list[dict[str, Any]]:
    """The manifests of everything published: kind "snapshots" or "datasets". Damaged ones are left out."""
    if kind == "snapshots":
        paths = (layout.ours / "snapshots").glob("*/*.json")
    else:
        paths = layout.datasets.glob("*/*/manifest.json")
    found = []
    for path in sorted(paths):
        try:
            record = read_record(path)
        except (OSError, ChangedError, json.JSONDecodeError):
            continue
        if isinstance(record.get("files"), list) and isinstance(record.get("path"), str):
            found.append(record)
    return found


def _still_proven(held: Held, file: File) -> Proof | None:
    try:
        stat = held.path.lstat()
        if stat.st_size != file.size:
            return None
        if stat.st_mtime_ns == held.mtime_ns:
            return Proof(held.size, held.sha256, held.git_sha1 or "", held.xxh3)
        proof = prove(held.path, git=not file.sha256)
    except OSError:
        return None
    return proof if file.is_proven_by(proof) else None
