"""Moves bytes between a person's disk and a volume, with progress; what arrives is whole or not there at all."""

import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from blocks.clusters.errors import ConflictError, NotFoundError, SlipwayError
from blocks.clusters.port import Cluster
from flows.cli.show import console
from tasks.pod import archive
from tasks.pod.archive import Totals
from tasks.pod.errors import PodError
from tasks.pod.layout import volume_relative
from tasks.pod.transfer import check_destination


def download(cluster: Cluster, volume: str, remote: str, local: Path, *, replace: bool) -> tuple[Path, Totals]:
    """Copy from a volume, as `cp` means it: into `local` if that is a directory, else as `local`.

    Raises:
        ConflictError: something of that name is there, and may not be replaced.
        ProgramError: there is no such file; the path leads out of the volume.
        SlipwayError: the disk is full, or may not be written.
    """
    path = volume_relative(remote)
    target = Path(os.path.abspath(local.expanduser()))  # noqa: PTH100 - keeps links as they were named
    if target.is_dir():
        target = target / (volume if path == "." else path.rsplit("/", 1)[-1])
    _refuse_taken(target, replace)
    total = _size_of(cluster, volume, path)
    with _explained(target), _private(target) as area:
        with cluster.stream(volume, "transfer.send", {"path": path}) as stream, _bar(f"getting {path}", total) as bar:
            try:
                unpacked = archive.unpack(cast(BinaryIO, _Counted(stream.stdout, bar)), area)
            except PodError:
                stream.result()  # its own refusal says more than a stream that ended
                raise
            stream.result()
        _refuse_taken(target, replace)
        if os.path.lexists(target):
            target.rename(area / "replaced")
        archive.place(unpacked, target)
    return target, unpacked.totals


def upload(cluster: Cluster, volume: str, local: Path, remote: str, *, replace: bool) -> dict[str, Any]:
    """Copy onto a volume, as `cp` means it.

    Returns:
        "path" relative to the volume, "files", "bytes".

    Raises:
        NotFoundError: there is no such file here.
        BadInputError, ProgramError: the place is not for `put`, or taken; something leads outside.
    """
    check_destination(remote)
    source = local.expanduser()
    if not source.exists():
        raise NotFoundError(f"There is no {str(local)!r} here.", "Name a file or directory.")
    totals = archive.measure(source)
    arguments = {"path": remote, "name": source.resolve().name, "bytes": totals.bytes, "replace": replace}
    with (
        cluster.stream(volume, "transfer.receive", arguments, writable=True) as stream,
        _bar(f"putting {local}", totals.bytes) as bar,
    ):
        archive.pack(source, cast(BinaryIO, _Counted(stream.stdin, bar)))
        return stream.result()


def _size_of(cluster: Cluster, volume: str, path: str) -> int | None:
    """Bytes to come; None if there are too many files to count."""
    listed = cluster.call(volume, "transfer.ls", {"path": path, "recursive": True})
    return None if listed["truncated"] else sum(e["size"] for e in listed["entries"] if e["type"] == "file")


def _refuse_taken(target: Path, replace: bool) -> None:
    if os.path.lexists(target) and not replace:
        raise ConflictError(f"{target} is there already.", "Name another path, or say --replace.")


@contextmanager
def _private(target: Path) -> Iterator[Path]:
    """A directory beside the target, on the same disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    area = Path(tempfile.mkdtemp(prefix=".slipway-get-", dir=target.parent))
    try:
        yield area
    finally:
        archive.discard(area)


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        remedy = "Make room, or name another place." if error.errno == errno.ENOSPC else "Name another place."
        raise SlipwayError(f"{target} can not be written: {error.strerror}.", remedy) from error


@dataclass
class _Bar:
    progress: Any
    task: Any

    def advance(self, count: int) -> None:
        if self.progress is not None:
            self.progress.advance(self.task, count)


@contextmanager
def _bar(what: str, total: int | None) -> Iterator[_Bar]:
    """A progress bar on standard error, where that is a terminal."""
    screen = console(sys.stderr)
    if not screen.is_terminal:
        yield _Bar(None, None)
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
        yield _Bar(progress, progress.add_task(what, total=total))


class _Counted:
    """A pipe that moves a bar. Its bytes are the stream's, a little more than the files'."""

    def __init__(self, pipe: IO[bytes], bar: _Bar) -> None:
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
        self._bar.advance(len(data))
        return self._pipe.write(data)

    def flush(self) -> None:
        self._pipe.flush()
