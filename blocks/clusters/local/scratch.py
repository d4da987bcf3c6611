"""Scratch directories of the programs that a process calls, in the temporary folder: gone with the call, and where the
caller was killed, with the next process that calls."""

import contextlib
import fcntl
import functools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from blocks.clusters.errors import SlipwayError
from blocks.clusters.local.files import remove_tree

_PREFIX = "slipway-scratch-"


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
        scratch = _made()
        while not _is_there(scratch):  # taken for abandoned before it was locked
            os.close(scratch.lock)
            scratch = _made()
    except OSError as error:
        raise SlipwayError(
            f"No scratch directory can be made in the temporary folder: {error.strerror or error}.",
            "Make room there, or let TMPDIR name a directory that can be written to.",
        ) from error
    try:
        _remove_abandoned(scratch.path.parent)
        yield scratch
    finally:
        remove_tree(scratch.path)
        os.close(scratch.lock)


def _made() -> Scratch:
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        return Scratch(path, _locked(path, fcntl.LOCK_EX))
    except FileNotFoundError:
        return _made()


def _locked(path: Path, how: int) -> int:
    """A descriptor of the directory, which holds its lock. Raises: BlockingIOError: it was not to be waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_there(scratch: Scratch) -> bool:
    try:
        return os.path.samestat(scratch.path.lstat(), os.fstat(scratch.lock))
    except FileNotFoundError:
        return False


@functools.cache  # once a process: it lists the whole temporary folder
def _remove_abandoned(folder: Path) -> None:
    """No look at how old they are: a clock can jump, a lock can not."""
    with contextlib.suppress(OSError):
        for path in folder.glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                if path.lstat().st_uid == os.getuid():
                    lock = _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    try:
                        remove_tree(path)
                    finally:
                        os.close(lock)
