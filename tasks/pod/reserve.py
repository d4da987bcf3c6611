"""Room that is kept for the end: on a volume that is full to its last byte, how an attempt ended can still be written
down, and what makes room again can still do its work."""

import contextlib
import errno
import os
from collections.abc import Callable
from typing import TypeVar

from tasks.pod.layout import Layout

T = TypeVar("T")
SIZE = 1 << 20
_PIECE = 1 << 16
_PLENTY = 8 << 20  # bytes free from which on a spent reserve is filled up again


def keep(layout: Layout) -> None:
    """Set the room aside, or fill it up again, where there is plenty."""
    path = layout.ours / "reserve"
    with contextlib.suppress(OSError):  # it is a help, and nobody's condition
        disk = os.statvfs(layout.root)
        whole = path.exists() and path.stat().st_size == SIZE
        if not whole and disk.f_bavail * disk.f_frsize >= _PLENTY:
            layout.ours.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(SIZE))  # what no file system compresses away


def give(layout: Layout) -> bool:
    """Give a piece back to the file system; False when nothing is left of it."""
    path = layout.ours / "reserve"
    with contextlib.suppress(OSError):
        if size := path.stat().st_size:
            os.truncate(path, max(0, size - _PIECE))
            return True
    return False


def is_full(error: OSError) -> bool:
    """Whether an error says that a disk, or somebody's share of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def until_it_fits(layout: Layout, work: Callable[[], T]) -> T:
    """Do idempotent work, again with a piece more of the reserve for as long as it finds the volume full."""
    while True:
        try:
            return work()
        except OSError as error:
            if not is_full(error) or not give(layout):
                raise
