"""A progress bar for bytes that go through a pipe."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from typing import IO, Any, cast

from flows.cli.show import console


@dataclass
class Bar:
    """A bar, or only its count where there is no terminal.

    Args:
        moved: bytes that went through so far, those of tries that failed included.
    """

    progress: Any
    task: Any
    moved: int = 0

    def start_at(self, count: int) -> None:
        """So many bytes are there already."""
        if self.progress is not None:
            self.progress.update(self.task, completed=count)

    def advance(self, count: int) -> None:
        self.moved += count
        if self.progress is not None:
            self.progress.advance(self.task, count)


@contextmanager
def byte_bar(what: str, total: int | None) -> Iterator[Bar]:
    """A progress bar on standard error, where that is a terminal.

    Args:
        total: bytes; None where that is not known.
    """
    screen = console(sys.stderr)
    if not screen.is_terminal:
        yield Bar(None, None)
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen, transient=True) as progress:
        yield Bar(progress, progress.add_task(what, total=total))


class Counted:
    """A pipe that moves a bar. Its bytes are the stream's, a little more than the files'."""

    def __init__(self, pipe: IO[bytes], bar: Bar) -> None:
        self._pipe = pipe
        self._bar = bar

    def read(self, size: int = -1) -> bytes:
        data = self._pipe.read(size)
        self._bar.advance(len(data))
        return data

    def read1(self, size: int = -1) -> bytes:
        data: bytes = cast(BufferedReader, self._pipe).read1(size)
        self._bar.advance(len(data))
        return data

    def write(self, data: bytes) -> int:
        count = self._pipe.write(data)
        self._bar.advance(len(data))
        return count

    def flush(self) -> None:
        self._pipe.flush()
