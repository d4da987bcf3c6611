"""Small files that processes share: whole JSON or none, locks that end with their holder, trees that can be removed.

Free of everything outside the standard library, because the supervisor starts with it.
"""

import contextlib
import errno
import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blocks.clusters.errors import SlipwayError

_RESERVE_SIZE = 1 << 20
_PIECE = 1 << 16
_PLENTY = 8 << 20  # bytes free from which on a spent reserve is filled up again


def is_full(error: OSError) -> bool:
    """Whether an error says that a disk, or somebody's share of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def keep_reserve(reserve: Path) -> None:
    """Set room aside for what must be written on a full disk, or fill it up again, where there is plenty."""
    with contextlib.suppress(OSError):  # it is a help, and nobody's condition
        disk = os.statvfs(reserve.parent)
        whole = reserve.exists() and reserve.stat().st_size == _RESERVE_SIZE
        if not whole and disk.f_bavail * disk.f_frsize >= _PLENTY:
            reserve.write_bytes(os.urandom(_RESERVE_SIZE))  # what no file system compresses away


def _give(reserve: Path) -> bool:
    """Give a piece of the reserve back to the file system; False when nothing is left of it."""
    with contextlib.suppress(OSError):
        if size := reserve.stat().st_size:
            os.truncate(reserve, max(0, size - _PIECE))
            return True
    return False


def write_json(path: Path, content: dict[str, Any], *, once: bool = False, reserve: Path | None = None) -> bool:
    """Write a JSON file that readers see whole or not at all, also after a crash of the machine.

    Args:
        path: where; its directory exists.
        content: a JSON object.
        once: leave a file that is there as it is.
        reserve: room for it on a full disk, see `keep_reserve`.

    Returns: whether this call wrote it.
    """
    while True:
        try:
            return _write_json(path, content, once)
        except OSError as error:
            if not is_full(error) or reserve is None or not _give(reserve):
                raise


def _write_json(path: Path, content: dict[str, Any], once: bool) -> bool:
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        with temporary.open("x", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        if not once:
            temporary.replace(path)
            return True
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            return False
        return True
    finally:
        temporary.unlink(missing_ok=True)


class DamagedError(SlipwayError):
    """A file that only we write does not hold what we write; what it stood for may still be alive."""

    def __init__(self, path: Path, why: str) -> None:
        remedy = "Somebody changed it: restore it, or move its directory away once nothing of it runs."
        super().__init__(f"{path} is damaged: {why}.", remedy)


def read_json(path: Path) -> dict[str, Any] | None:
    """The file's JSON object, or None where there is no such file.

    Raises:
        DamagedError: it is something else.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a third of the time of Path.read_bytes, for a thousand jobs
            content: dict[str, Any] = json.loads(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise DamagedError(path, str(error)) from error
    if not isinstance(content, dict):
        raise DamagedError(path, "no JSON object")
    return content


def try_lock(path: Path, patience_seconds: float = 0) -> int | None:
    """Take the lock for as long as the returned descriptor is open, in any process; None if it is held.

    Args:
        path: the lock file; its directory exists.
        patience_seconds: how long to try. `is_locked` holds a lock for an instant, which a taker must sit out.

    Raises:
        FileNotFoundError: its directory is gone.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= until:
                os.close(descriptor)
                return None
            time.sleep(0.005)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock for the block, waiting for it first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def remove_tree(path: Path) -> None:
    """Remove a directory and all that is in it, read-only directories (published trees) included.

    Links are removed, never followed. Somebody else who removes the same tree at the same time is fine.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.is_symlink():
            path.unlink()
            return
        path.chmod(0o700)
        with os.scandir(path) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    remove_tree(Path(entry.path))
                else:
                    with contextlib.suppress(FileNotFoundError):
                        Path(entry.path).unlink()
        path.rmdir()
