"""Scratch directories of the programs that a process calls, in the temporary folder: gone with the call, and where the
caller was killed, with the next process that calls."""

import contextlib
import fcntl
import functools
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from blocks.clusters.errors import SlipwayError
from blocks.clusters.local.files import remove_tree

_PREFIX = "slipway-call-"
_YOUNG_SECONDS = 60.0  # what was made just now may not be locked yet


@dataclass(frozen=True)
class Scratch:
    """A directory that is in use.

    Args:
        path: where it is.
        lock: an open descriptor; whoever inherits it keeps the directory, as the program does whose caller is killed.
    """

    path: Path
    lock: int


@contextlib.contextmanager
def call_scratch() -> Iterator[Scratch]:
    """A scratch directory for the block.

    Raises:
        SlipwayError: there is no temporary folder that can be written to.
    """
    try:
        made = tempfile.TemporaryDirectory(prefix=_PREFIX)
    except OSError as error:
        raise SlipwayError(
            f"No scratch directory can be made in the temporary folder: {error.strerror or error}.",
            "Make room there, or let TMPDIR name a directory that can be written to.",
        ) from error
    with made as name:
        _remove_abandoned(Path(name).parent)
        lock = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Scratch(Path(name), lock)
        finally:
            os.close(lock)


@functools.cache  # once a process: it lists the whole temporary folder
def _remove_abandoned(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for path in folder.glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                if _is_abandoned(path):
                    remove_tree(path)


def _is_abandoned(path: Path) -> bool:
    seen = path.lstat()
    if seen.st_uid != os.getuid() or time.time() - seen.st_mtime < _YOUNG_SECONDS:
        return False
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
