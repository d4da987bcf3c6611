"""Where an attempt reads its weights: in place on the volume, or from a verified copy on the node. Part of the init
command; what it did is written down for `slipway runs show`."""

import hashlib
import json
import os
import secrets
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.pod.area import remove_tree
from tasks.pod.copying import Pace, Wanted, copy
from tasks.pod.errors import ChangedError, NoSpaceError, PodError
from tasks.pod.folders import list_folder
from tasks.pod.layout import Layout
from tasks.pod.node_cache import Lease, NodeCache
from tasks.pod.nodes import nodes_with, note, this_node
from tasks.pod.reserve import is_full
from tasks.pod.shared import manifests
from tasks.pod.sizes import size_text
from tasks.pod.weights import inspect


@dataclass(frozen=True)
class Source:
    """Weights on the volume.

    Args:
        files: what is copied.
        home: where they belong below the copy's root: `models--org--name/snapshots/<commit>`, or `<name>`.
        beside: small files that make the copy a Hub cache: path below the root → text.
        key: names this content; equal for equal files.
    """

    files: list[Wanted]
    home: str
    beside: dict[str, str]
    key: str

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def checked(self) -> str:
        if all(file.xxh3 for file in self.files):
            return "xxh3"
        return "sha256" if all(file.sha256 or file.xxh3 for file in self.files) else "sizes and headers"


def place_weights(layout: Layout, plan: dict[str, Any], attempt: int, scratch: Path) -> tuple[Path, dict[str, Any]]:
    """Have the weights of a run where it asked to read them; return the directory, and what was done for it.

    Raises:
        NoSpaceError: no room, and no fallback was asked for.
        ChangedError: the volume has other bytes than were staged.
    """
    path = plan["resolved"]["weights"]["path"]
    asked = (plan.get("request") or {}).get("weights") or {}
    placement = asked.get("placement") or "volume"
    if placement == "volume":
        return layout.resolve(path), _report("volume", "volume")
    begun = time.monotonic()
    source = read_source(layout, path)
    try:
        work = _Work(source, sha256=bool(asked.get("sha256")))
        if placement == "hydrate":
            directory, cached = work.into(scratch / "weights"), False
        else:
            directory, cached = _from_node(layout, work, Lease(f"{plan['run']}.{attempt}", _alive()))
    except ChangedError:
        raise
    except (PodError, OSError) as error:
        if isinstance(error, OSError) and not is_full(error):
            raise
        why = error.what if isinstance(error, PodError) else f"The node's disk is full: {error}."
        if not asked.get("fallback"):
            raise NoSpaceError(
                f"The weights can not be copied to the node. {why}",
                "Ask for them to be read in place, or for that as a fallback.",
            ) from error
        print(f"reading the weights in place, as was asked for this case: {why}", file=sys.stderr, flush=True)
        return layout.resolve(path), _report(placement, "volume", why=why)
    report = _report(placement, placement, work=work, seconds=time.monotonic() - begun, cached=cached)
    print(f"weights: {describe(report)}", file=sys.stderr, flush=True)
    return directory, report


def describe(report: dict[str, Any]) -> str:
    """A report in a few words."""
    if report["read_from"] == "volume":
        return f"read in place: {report['why']}" if report["why"] else "read in place"
    what = f"{size_text(report['bytes'])} in {report['files']} files"
    if report["cached"]:
        return f"{what}, were on the node already"
    rate = f"{report['bytes'] / 1e6 / max(report['seconds'], 1e-9):.0f} MB/s"
    return f"{what} copied in {report['seconds']:.1f} s ({rate}), checked by {report['checked']}"


def read_source(layout: Layout, path: str) -> Source:
    """The files of weights, with the hashes that their manifest has; weights that people put there have none.

    Raises:
        NotThereError, BadInputError: it is no directory of files.
    """
    root = layout.resolve(path)
    record = next(
        (record for record in manifests(layout, "snapshots") if record["path"] == layout.relative(root)), None
    )
    if record is None:
        found = list_folder(str(root))
        files = [Wanted(file.path, file.source, file.size) for file in found]
        listing = [[file.path, file.size, file.mtime_ns] for file in found]
        return Source(files, root.name, {}, _key(root.name, listing))
    files = [
        Wanted(entry["path"], root / entry["path"], entry["size"], entry.get("xxh3") or "", entry["sha256"])
        for entry in record["files"]
    ]
    home = layout.repo(record["repo_type"], record["repo"])
    commit = record["commit"]
    tree = home / "trees" / f"{commit}.json"
    beside = {f"{home.name}/refs/slipway/{commit}": commit}
    if tree.is_file():
        beside[f"{home.name}/trees/{commit}.json"] = tree.read_text(encoding="utf-8")
    listing = [[file.path, file.size, file.sha256] for file in files]
    return Source(files, f"{home.name}/snapshots/{commit}", beside, _key(home.name, listing))


class _Work:
    """One copy, and how it went."""

    def __init__(self, source: Source, *, sha256: bool) -> None:
        self.source = source
        self.sha256 = sha256
        self.pace: Pace | None = None

    def into(self, base: Path) -> Path:
        """Copy below a directory that appears whole or not at all; returns where the weights are in it."""
        if base.exists():
            remove_tree(base)
        fresh = base.with_name(f".{base.name}.{secrets.token_hex(4)}")
        fresh.mkdir(parents=True)
        try:
            _require_room(fresh, self.source.bytes)
            self.fill(fresh)
            fresh.rename(base)
        finally:
            if fresh.exists():
                remove_tree(fresh)
        return base / self.source.home

    def fill(self, root: Path) -> None:
        """Raises: ChangedError: the copy is not what was staged, or could not be loaded."""
        home = root / self.source.home
        self.pace = copy(self.source.files, home, sha256=self.sha256)
        for path, text in self.source.beside.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        found = inspect(Layout(root), {"path": self.source.home})
        if not found["ok"]:
            raise ChangedError(f"The copied weights can not be used: {found['why']}", found["remedy"])


def preferred_nodes(layout: Layout, plan: dict[str, Any]) -> list[str]:
    """The nodes on which a run would find its weights copied already, those that were seen last first."""
    asked = (plan.get("request") or {}).get("weights") or {}
    if asked.get("placement") != "node" or not layout.nodes.is_dir():
        return []
    return nodes_with(layout, read_source(layout, plan["resolved"]["weights"]["path"]).key)


def _from_node(layout: Layout, work: _Work, lease: Lease) -> tuple[Path, bool]:
    cache = NodeCache.here()
    root, cached = cache.take(work.source.key, work.source.bytes, lease, work.fill)
    note(layout, [entry["key"] for entry in cache.entries()])
    return root / work.source.home, cached


def _alive() -> Path:
    """Raises: PodError: nobody tells how long this job lives, so that nothing could be kept for it."""
    if not (path := os.environ.get("SLIPWAY_ALIVE")):
        raise PodError("The cluster does not say how long a job lives.", "Hydrate into scratch instead.")
    return Path(path)


def _require_room(place: Path, needed: int) -> None:
    stat = os.statvfs(place)
    free = stat.f_bavail * stat.f_frsize
    if needed + (16 << 20) > free:
        raise NoSpaceError(
            f"The weights need {size_text(needed)}, and scratch has {size_text(free)} free.", "Make room on the node."
        )


def _key(name: str, listing: list[list[Any]]) -> str:
    digest = hashlib.sha256(json.dumps(listing).encode()).hexdigest()[:16]
    return f"{name[:80]}.{digest}"


def _report(
    asked: str, read_from: str, *, work: _Work | None = None, seconds: float = 0.0, cached: bool = False, why: str = ""
) -> dict[str, Any]:
    source, pace = (work.source, work.pace) if work else (None, None)
    return {
        "asked": asked,
        "read_from": read_from,
        "why": why,
        "bytes": source.bytes if source else 0,
        "files": len(source.files) if source else 0,
        "seconds": round(seconds, 3),
        "cached": cached,
        "node": this_node(),
        "checked": (f"{source.checked}, sha256" if work and work.sha256 else source.checked) if source else None,
        "workers": pace.workers if pace else None,
        "latency_ms": round(pace.latency * 1e3, 3) if pace else None,
    }
