"""The log of a local job: written by the program itself, so that it needs nobody to live; its times by the supervisor.

The times are coarse: every half second the supervisor notes how long the log is. A line may thus come up to that much
too early in `read_log(since=…)`, but none is ever missing. Free of everything outside the standard library, because
the supervisor starts with it.
"""

import bisect
import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

_LONGEST_LINE = 1 << 20


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


def read_log(log: Path, times: Path, since: float | None) -> Iterator[str]:
    """Yield the lines of a log, from a unix time on; of one that is longer than any line, pieces."""
    if not log.exists():
        return
    with log.open("rb") as file:
        if since is not None:
            _seek_line(file.fileno(), _length_at(times, since))
        while line := file.readline(_LONGEST_LINE):
            yield line.decode(errors="replace").rstrip("\r\n")


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


def _seek_line(descriptor: int, position: int) -> None:
    """Go to the start of the line that holds this position."""
    while position > 0:
        start = max(0, position - 4096)
        before = os.pread(descriptor, position - start, start)
        if b"\n" in before:
            position = start + before.rindex(b"\n") + 1
            break
        position = start
    os.lseek(descriptor, position, os.SEEK_SET)
