"""The private area in which a staging job works: owned by one job at a time, kept until its result is published."""

import fcntl
import os
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tasks.pod import reserve
from tasks.pod.errors import NoSpaceError
from tasks.pod.layout import Layout
from tasks.pod.sizes import size_text

_STALE_AFTER = 60.0
_UNSUPPORTED = {38, 45, 95, 102}  # ENOSYS and EOPNOTSUPP/ENOTSUP of Linux and macOS


@contextmanager
def staging_area(layout: Layout, name: str) -> Iterator[Path]:
    """Own the area of an identity; waits for another job that owns it (one line on stderr says so).

    What is in it survives for the next attempt; `clear` empties it once its result has been published.
    """
    reserve.keep(layout)
    area = layout.staging(name)
    while True:
        area.mkdir(parents=True, exist_ok=True)
        try:
            lock = (area / "lock").open("a+")
        except FileNotFoundError:  # its owner has just removed it
            continue
        with lock:
            beat = _acquire(lock.fileno(), area)
            try:
                if _is_here(lock.fileno(), area):
                    yield area
                    return
            finally:
                if beat:
                    beat.stop()


def clear(area: Path) -> None:
    """Remove what a published result does not need; the lock and the last progress note stay."""
    for entry in area.iterdir():
        if entry.name in ("lock", "progress.json"):
            continue
        if entry.is_dir():
            remove_tree(entry)
        else:
            entry.unlink(missing_ok=True)


def remove_tree(path: Path) -> None:
    """Remove a directory tree, also one that was made read-only."""
    for folder, _, _ in os.walk(path):
        Path(folder).chmod(0o755)
    shutil.rmtree(path)


def require_space(path: Path, needed: int, what: str = "Staging") -> None:
    """Refuse before the first byte is written when the bytes still needed, and a margin, do not fit.

    Args:
        what: needs them, for the message.

    Raises:
        NoSpaceError: naming what is needed and what is free.
    """
    # f_bavail: what is free for us; ext4 keeps 5 % of f_bfree for root
    stat = os.statvfs(path)
    free = stat.f_bavail * stat.f_frsize
    margin = min(1 << 30, (16 << 20) + needed // 100) if needed else 0
    if needed + margin > free:
        raise NoSpaceError(
            f"{what} needs {size_text(needed)} ({needed} bytes) and a margin of {size_text(margin)},"
            f" and the volume has {size_text(free)} ({free} bytes) free.",
            "Grow the volume, prune checkpoints, or remove what is not needed.",
        )


def is_owned(area: Path) -> bool:
    """Whether a job works in the area right now."""
    try:
        with (area / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no flock here, or a mount on which a reader can not ask: the heartbeat decides
        beat = area / "owner"
        return beat.exists() and time.time() - beat.stat().st_mtime < _STALE_AFTER
    return False


def _is_here(descriptor: int, area: Path) -> bool:
    """Whether the lock that we got is the area's: who owned it before us may have removed both."""
    try:
        return os.path.samestat(os.fstat(descriptor), (area / "lock").stat())
    except FileNotFoundError:
        return False


def _acquire(descriptor: int, area: Path) -> "_Heartbeat | None":
    said = False
    started = time.monotonic()
    pause = 0.05
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            if beat := _Heartbeat.take(area):
                return beat
        if not said and time.monotonic() - started > 1:
            said = True
            print(f"another job works on {area.name}: waiting for it", file=sys.stderr, flush=True)
        time.sleep(pause)
        pause = min(pause * 1.5, 1.0)


class _Heartbeat:
    """Ownership where flock does not exist: a file that its owner touches, free again when it went stale."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ended = threading.Event()
        self._beat = threading.Thread(target=self._run, daemon=True)
        self._beat.start()

    @classmethod
    def take(cls, area: Path) -> "_Heartbeat | None":
        path = area / "owner"
        try:
            if time.time() - path.stat().st_mtime > _STALE_AFTER:
                # a rename moves it once: of two that find it stale, one goes on
                path.rename(area / f"owner.{secrets.token_hex(4)}")
        except FileNotFoundError:
            pass
        try:
            path.open("x").close()
        except FileExistsError:
            return None
        return cls(path)

    def stop(self) -> None:
        self._ended.set()
        self._beat.join()
        self.path.unlink(missing_ok=True)

    def _run(self) -> None:
        while not self._ended.wait(_STALE_AFTER / 6):
            with suppress(FileNotFoundError):  # taken by another after a stall longer than the limit
                os.utime(self.path)
