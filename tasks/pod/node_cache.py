"""Weights on a node's own disk, shared by the runs there: one copier at a time, the least recently used goes first, and
what a run uses stays.

A run's lease outlives the init command that took it: it names a file that whoever keeps the job alive holds a lock on
(`$SLIPWAY_ALIVE`: on the local cluster the supervisor and, through it, the program). A lease whose file is gone or
unlocked is over; nobody has to give one back.
"""

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.pod.area import remove_tree
from tasks.pod.errors import NoSpaceError, PodError
from tasks.pod.records import read_if_there, replace, sync
from tasks.pod.sizes import size_text

_ENTRY = "entry.json"
_MARGIN = 64 << 20


@dataclass(frozen=True)
class Lease:
    """Who uses an entry.

    Args:
        holder: run and attempt, such as "llama-sft.2".
        alive: a file that stays locked for as long as its job lives.
    """

    holder: str
    alive: Path


class NodeCache:
    """A directory that all runs of a node see.

    Args:
        root: where.
        limit: bytes of all entries together.
    """

    def __init__(self, root: Path, limit: int) -> None:
        self._root = root
        self._limit = limit
        for name in ("entries", "leases", "locks", "arriving"):
            (root / name).mkdir(parents=True, exist_ok=True)

    @classmethod
    def here(cls) -> "NodeCache":
        """Raises: PodError: this node has none."""
        root, limit = os.environ.get("SLIPWAY_NODE_CACHE"), os.environ.get("SLIPWAY_NODE_CACHE_BYTES")
        if not root or not limit:
            raise PodError("This node has no cache for weights.", "Set node_cache for the cluster, or hydrate instead.")
        return cls(Path(root), int(limit))

    def take(self, key: str, size: int, lease: Lease, fill: Callable[[Path], None]) -> tuple[Path, bool]:
        """The entry of a key, leased, and whether it was there; else filled by this call.

        Args:
            size: bytes that `fill` writes into the directory it is given.

        Raises:
            NoSpaceError: it is larger than the cache, or what is in use leaves no room for it, or the disk is full.
        """
        entry, arriving = self._root / "entries" / key, self._root / "arriving" / key
        with _locked(self._root / "locks" / key, f"another run copies {key} to this node: waiting for it"):
            with self._turn():
                if self._is_whole(entry):
                    self._lease(key, lease)
                    os.utime(entry / _ENTRY)
                    return entry, True
                self._discard(entry)
                self._discard(arriving)
                self._make_room(size)
                arriving.mkdir()
                replace(self._root / "arriving" / f"{key}.json", {"bytes": size})
            try:
                fill(arriving)
                _sync_all(arriving)
                replace(arriving / _ENTRY, {"bytes": size, "files": _listing(arriving), "made_at": time.time()})
                with self._turn():
                    self._lease(key, lease)
                    arriving.rename(entry)
                    sync(entry.parent)
            finally:
                self._discard(arriving)
                (self._root / "arriving" / f"{key}.json").unlink(missing_ok=True)
        return entry, False

    def entries(self) -> list[dict[str, Any]]:
        """What is there, least recently used first: "key", "bytes", "last_used", "in_use" (holders)."""
        found = []
        for path in (self._root / "entries").iterdir():
            with contextlib.suppress(FileNotFoundError):
                size = (read_if_there(path / _ENTRY) or {"bytes": 0})["bytes"]
                used = (path / _ENTRY).stat().st_mtime
                found.append({"key": path.name, "bytes": size, "last_used": used, "in_use": self._holders(path.name)})
        return sorted(found, key=lambda entry: float(entry["last_used"]))

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        with _locked(self._root / "locks" / ".cache"):
            yield

    def _make_room(self, size: int) -> None:
        if size > self._limit:
            raise NoSpaceError(
                f"The weights have {size_text(size)} and the node's cache is limited to {size_text(self._limit)}.",
                "Raise its limit, or hydrate into scratch.",
            )
        entries = self.entries()
        total = sum(entry["bytes"] for entry in entries) + self._promised()
        for entry in entries:
            if total + size <= self._limit and self._free() >= size + _MARGIN:
                return
            if not entry["in_use"]:
                self._discard(self._root / "entries" / entry["key"])
                total -= entry["bytes"]
        if total + size > self._limit:
            using = sorted({holder for entry in entries for holder in entry["in_use"]})
            raise NoSpaceError(
                f"The node's cache has no room for {size_text(size)}: {size_text(total)} of {size_text(self._limit)} "
                f"are in use by {', '.join(using) or 'copies that are on their way'}.",
                "Raise its limit, hydrate into scratch, or try again when a run has ended.",
            )
        if (free := self._free()) < size + _MARGIN:
            raise NoSpaceError(
                f"The disk under the node's cache has {size_text(free)} free, and {size_text(size)} are needed.",
                "Make room there, or read the weights in place.",
            )

    def _promised(self) -> int:
        """Bytes of copies on their way; what a dead copier left is removed."""
        total = 0
        for note in (self._root / "arriving").glob("*.json"):
            with (self._root / "locks" / note.stem).open("a") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    total += (read_if_there(note) or {"bytes": 0})["bytes"]
                    continue
                self._discard(self._root / "arriving" / note.stem)
                note.unlink(missing_ok=True)
        return total

    def _free(self) -> int:
        stat = os.statvfs(self._root)
        return stat.f_bavail * stat.f_frsize

    def _lease(self, key: str, lease: Lease) -> None:
        home = self._root / "leases" / key
        home.mkdir(exist_ok=True)
        replace(home / f"{lease.holder}.json", {"alive": str(lease.alive)})

    def _holders(self, key: str) -> list[str]:
        """Those whose job lives; the leases of others are removed."""
        home, live = self._root / "leases" / key, []
        for path in sorted(home.glob("*.json")) if home.is_dir() else ():
            if _is_locked(Path(json.loads(path.read_text())["alive"])):
                live.append(path.stem)
            else:
                path.unlink(missing_ok=True)
        return live

    @staticmethod
    def _is_whole(entry: Path) -> bool:
        record = read_if_there(entry / _ENTRY)
        return record is not None and _listing(entry) == record["files"]

    def _discard(self, path: Path) -> None:
        if path.is_dir():
            away = path.with_name(f".{path.name}.{os.getpid()}")
            path.rename(away)
            remove_tree(away)


def _listing(root: Path) -> list[list[Any]]:
    """Names, sizes and times: what tells that nobody has touched an entry."""
    found = []
    for path in sorted(root.rglob("*")):
        if path.is_file() and path != root / _ENTRY:
            stat = path.stat()
            found.append([path.relative_to(root).as_posix(), stat.st_size, stat.st_mtime_ns])
    return found


def _sync_all(root: Path) -> None:
    """An entry outlives the machine: its bytes must be on the disk before its name is."""
    for path in root.rglob("*"):
        if path.is_file():
            sync(path)


@contextlib.contextmanager
def _locked(path: Path, waiting: str = "") -> Iterator[None]:
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting:
                print(waiting, file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_locked(path: Path) -> bool:
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
