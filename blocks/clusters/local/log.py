"""The log of a local job: written by the program itself, so that it needs nobody to live; its times by the supervisor.

The times are coarse: every half second the supervisor notes how long the log is. A line may thus come up to that much
too early with `since`, but none is ever missing. Free of everything outside the standard library, because
the supervisor starts with it.
"""

import bisect
import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from blocks.clusters.lines import LONGEST_PIECE, Lines

_BLOCK = 1 << 16


class LogTimes:
    """Notes the log's length whenever it has grown.

    Args:
        log: an open file.
        path: where to note it.
    """

    def __init__(self, log: int, path: Path) -> None:
        self._log = log
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._length = -1

    def note(self) -> None:
        length = os.fstat(self._log).st_size
        if length != self._length:
            self._length = length
            with contextlib.suppress(OSError):  # a full disk must not end the job
                self._file.write(f"{time.time():.3f} {length}\n")


class LogFile:
    """A log's lines; iterated again, those that came since. What was read is never read again.

    Args:
        since: a unix time to begin at.
        last: begin with so many of the last lines.
    """

    def __init__(self, log: Path, times: Path, since: float | None = None, last: int | None = None) -> None:
        self._log, self._times = log, times
        self._since, self._last = since, last
        self._at: int | None = None
        self._lines = Lines()

    def __iter__(self) -> Iterator[str]:
        if not self._log.exists():
            return
        with self._log.open("rb") as file:
            length = os.fstat(file.fileno()).st_size  # a look ends, however fast the log grows
            if self._at is None:
                self._at = self._begin(file.fileno(), length)
            file.seek(self._at)
            while self._at < length and (piece := file.readline(LONGEST_PIECE)):
                self._at += len(piece)
                yield from self._lines.of(piece)

    def _begin(self, descriptor: int, length: int) -> int:
        begin = 0 if self._since is None else _line_at(descriptor, _length_at(self._times, self._since))
        if self._last is None:
            return begin
        return max(begin, _line_at(descriptor, length - 1, self._last) if self._last else length)


def last_lines(log: Path, count: int = 20, longest: int = 500) -> list[str]:
    """The end of a log, without reading all of it: at most `count` lines of at most `longest` characters."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - count * longest))
        lines = file.read().decode(errors="replace").splitlines()
    return [line[-longest:] for line in lines[-count:]]


def _length_at(times: Path, since: float) -> int:
    if not times.exists():
        return 0
    noted = [line.split() for line in times.read_text(encoding="utf-8").splitlines()]
    noted = [pair for pair in noted if len(pair) == 2]
    place = bisect.bisect_right([float(pair[0]) for pair in noted], since)
    return int(noted[place - 1][1]) if place else 0


def _line_at(descriptor: int, position: int, count: int = 1) -> int:
    """Where the line begins that holds this position; of so many lines that end with it, where the first begins."""
    while position > 0:
        start = max(0, position - _BLOCK)
        before = os.pread(descriptor, position - start, start)
        ends = before.count(b"\n")
        if ends >= count:
            at = len(before)
            for _ in range(count):
                at = before.rindex(b"\n", 0, at)
            return start + at + 1
        count, position = count - ends, start
    return 0
