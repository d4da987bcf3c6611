"""Copies files from a volume to a disk of the node, piece by piece, in parallel within files and across them; every
piece is hashed on its way. How many at once is decided by what the source turns out to be, not by a setting."""

import contextlib
import os
import statistics
import sys
import threading
import time
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import xxhash

from tasks.pod.errors import ChangedError
from tasks.pod.files import prove
from tasks.pod.pieces import PIECE, combine
from tasks.pod.reflink import clone

_SLOW = 0.002
"""Seconds for one small read, from which on a source counts as far away: a local disk answers in a tenth of it."""

_FAR_WORKERS, _FAR_READ = 16, 4 << 20
_NEAR_WORKERS = 8
"""More than cores: a cold disk answers several at once, and a warm one costs no more CPU for it."""
_WRITE = 256 << 10
"""Stays in a core's cache between being read, hashed and written; writes of 1 MiB cost ext4 three times the CPU."""
_PROBES, _PROBE_BYTES = 5, 64 << 10


@dataclass(frozen=True)
class Wanted:
    """A file to copy.

    Args:
        path: relative, with forward slashes.
        source: where it is.
        size: bytes.
        xxh3: its hash by `tasks.pod.pieces`, "" where none is known.
        sha256: "" where none is known.
    """

    path: str
    source: Path
    size: int
    xxh3: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class Pace:
    """How a source is read.

    Args:
        latency: seconds of one small read; the median of a few.
        workers: how many read at a time, each through handles of its own.
        read: bytes a call.
        within: several read one file at a time. Local file systems let one writer at a time into a file: there it only
            costs, and each file is left to one worker.
    """

    latency: float
    workers: int
    read: int
    within: bool


def measure(files: list[Wanted]) -> Pace:
    """Find out what the source is, by some small reads of the largest file, each through a new handle.

    A far one (a network volume) answers late and gives each handle a part of its speed: many ranges at once. A near one
    is read a file to a worker, in order.
    """
    largest = max(files, key=lambda file: file.size)
    took = []
    for number in range(_PROBES):
        begun = time.perf_counter()
        descriptor = os.open(largest.source, os.O_RDONLY)
        try:
            os.pread(descriptor, _PROBE_BYTES, largest.size * number // _PROBES)
        finally:
            os.close(descriptor)
        took.append(time.perf_counter() - begun)
    latency = statistics.median(took)
    if latency >= _SLOW:
        return Pace(latency, _FAR_WORKERS, _FAR_READ, within=True)
    return Pace(latency, _NEAR_WORKERS, _WRITE, within=False)


def copy(files: list[Wanted], target: Path, *, sha256: bool = False, pace: Pace | None = None) -> Pace:
    """Copy files below `target`, and prove each. Where the file system can, they share their bytes with the source, and
    are read once, to be proven.

    Args:
        sha256: also read what was written, and hold its sha256 against the wanted one.
        pace: measured where it is not given.

    Returns:
        How the source was read.

    Raises:
        ChangedError: a file at the source is not what it should be. Nothing else is copied then.
        OSError: among others, no space.
    """
    pace = pace or measure(files)
    stop = threading.Event()
    shared: set[str] = set()
    for number, file in enumerate(files):
        path = target / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as out, file.source.open("rb") as source:
            if len(shared) == number and clone(source.fileno(), out.fileno()):  # one that can not be is enough to know
                shared.add(file.path)
            elif pace.within:  # where a file grows from its start, the file system is faster without
                out.truncate(file.size)

    def bring(pieces: "Sequence[_Piece]") -> None:
        try:
            for piece in pieces:
                if stop.is_set():
                    return
                piece.bring(target, pace.read)
                if piece.file.finish(piece.number):
                    _prove(piece.file, target, sha256)
        except BaseException:
            stop.set()
            raise

    with ThreadPoolExecutor(pace.workers) as pool:
        for future in [pool.submit(bring, pieces) for pieces in _shares(files, within=pace.within, shared=shared)]:
            future.result()
    return pace


class _Arriving:
    """A file and the digests of its pieces that have arrived.

    Args:
        shared: it arrived at once, by sharing its bytes with the source.
    """

    def __init__(self, wanted: Wanted, *, shared: bool) -> None:
        self.wanted = wanted
        self.shared = shared
        self.digests: list[bytes] = [b""] * max(1, -(-wanted.size // PIECE))
        self._left = len(self.digests)
        self._lock = threading.Lock()

    def finish(self, number: int) -> bool:
        """Whether that was the last piece."""
        with self._lock:
            self._left -= 1
            return self._left == 0


@dataclass(frozen=True)
class _Piece:
    file: _Arriving
    number: int

    def bring(self, target: Path, read: int) -> None:
        """Copy it, and hash what was copied; of a file that shares its bytes, hash what the copy has."""
        wanted, there = self.file.wanted, target / self.file.wanted.path
        offset = self.number * PIECE
        end = min(offset + PIECE, wanted.size)
        hasher = xxhash.xxh3_128()
        with contextlib.ExitStack() as stack:
            source = _opened(stack, there if self.file.shared else wanted.source, os.O_RDONLY)
            out = None if self.file.shared else _opened(stack, there, os.O_WRONLY)
            _read_ahead(source, offset, end - offset)
            buffer = _buffer(read)
            while offset < end:
                count = os.preadv(source, [buffer[: min(read, end - offset)]], offset)
                if not count:
                    raise _changed(wanted, "ended early")
                for at in range(0, count, _WRITE):
                    chunk = buffer[at : min(at + _WRITE, count)]
                    hasher.update(chunk)
                    offset += len(chunk) if out is None else _write(out, chunk, offset)
            if self.number == len(self.file.digests) - 1 and os.pread(source, 1, wanted.size):
                raise _changed(wanted, "is longer than it should be")
        self.file.digests[self.number] = hasher.digest()


def _opened(stack: contextlib.ExitStack, path: Path, flags: int) -> int:
    descriptor = os.open(path, flags)
    stack.callback(os.close, descriptor)
    return descriptor


def _read_ahead(descriptor: int, offset: int, length: int) -> None:
    """A far source sends more at a time: 1.5 times as fast (measured: 5 ms a call, 100 MB/s a handle)."""
    if sys.platform == "linux":
        os.posix_fadvise(descriptor, offset, length, os.POSIX_FADV_SEQUENTIAL)


_threads = threading.local()


def _buffer(size: int) -> memoryview:
    if getattr(_threads, "size", 0) != size:
        _threads.size, _threads.buffer = size, memoryview(bytearray(size))
    buffer: memoryview = _threads.buffer
    return buffer


def _write(descriptor: int, chunk: memoryview, offset: int) -> int:
    written = 0
    while written < len(chunk):
        written += os.pwrite(descriptor, chunk[written:], offset + written)
    return written


def _shares(files: list[Wanted], *, within: bool, shared: Container[str]) -> Iterator[list[_Piece]]:
    """What one worker takes at a time; largest files first, so that none is left with one at the end."""
    for file in sorted(files, key=lambda wanted: -wanted.size):
        arriving = _Arriving(file, shared=file.path in shared)
        pieces = [_Piece(arriving, number) for number in range(len(arriving.digests))]
        if within or arriving.shared:  # which nobody writes
            yield from ([piece] for piece in pieces)
        else:
            yield pieces


def _prove(file: _Arriving, target: Path, sha256: bool) -> None:
    wanted = file.wanted
    found = combine(file.digests) if wanted.size else combine([])
    if wanted.xxh3 and found != wanted.xxh3:
        raise _changed(wanted, "has other bytes than were staged")
    if wanted.sha256 and (sha256 or not wanted.xxh3) and prove(target / wanted.path).sha256 != wanted.sha256:
        raise _changed(wanted, "has other bytes than were staged")


def _changed(wanted: Wanted, what: str) -> ChangedError:
    return ChangedError(
        f"{wanted.path} on the volume {what}.",
        "Check and repair it: `slipway stage model ORG/NAME@COMMIT --volume NAME --verify`.",
    )
