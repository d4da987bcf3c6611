"""Moves bytes between a person's disk and a volume, with progress; what arrives is whole or not there at all.

A transfer that is cut goes on where it was: at once, for as long as each try brings something, and when the same
command is given again.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from blocks.clusters.errors import CUT_OFF, ConflictError, NotFoundError, ProgramError, SlipwayError
from blocks.clusters.port import Cluster, Session
from flows.cli.bar import Bar, Counted, byte_bar
from flows.cli.show import say
from tasks.pod import archive, arriving
from tasks.pod.archive import Totals
from tasks.pod.errors import BadInputError, ChangedError, PodError
from tasks.pod.layout import volume_relative
from tasks.pod.transfer import check_destination
from tasks.pod.walk import walk

T = TypeVar("T")
_FRUITLESS_TRIES = 3
_KEPT = "What has arrived is kept: the same command goes on from there."
_PAUSE_SECONDS = 1.0


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
    key = _key(cluster, volume, path, target.name)
    with _explained(target), _private(target, key) as area, byte_bar(f"getting {path}", total) as bar:

        def once(session: str) -> arriving.Unpacked:
            have = arriving.arrived(area)
            bar.start_at(sum(there.at for there in have.values()))
            arguments = {"path": path, "have": arriving.to_json(have)}
            with cluster.stream(volume, "transfer.send", arguments, session=session) as stream:
                try:
                    unpacked = arriving.unpack(cast(BinaryIO, Counted(stream.stdout, bar)), area)
                except PodError:
                    stream.result()  # its own refusal says more than a stream that ended
                    raise
                stream.result()
                return unpacked

        unpacked = _through_cuts(cluster, volume, once, bar, writable=False)
        _refuse_taken(target, replace)
        if os.path.lexists(target):
            target.rename(area / "replaced")
        arriving.place(unpacked, target)
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
    key = _key(cluster, volume, volume_relative(remote), _listing(source))
    arguments = {"path": remote, "name": source.resolve().name, "replace": replace, "key": key}
    with byte_bar(f"putting {local}", totals.bytes) as bar:

        def once(session: str) -> dict[str, Any]:
            have = arriving.from_json(cluster.call(volume, "transfer.arrived", {"key": key})["have"])
            there = sum(file.at for file in have.values())
            bar.start_at(there)
            asked = {**arguments, "bytes": max(0, totals.bytes - there)}
            with cluster.stream(volume, "transfer.receive", asked, writable=True, session=session) as stream:
                archive.pack(source, cast(BinaryIO, Counted(stream.stdin, bar)), have)
                return stream.result()

        return _through_cuts(cluster, volume, once, bar, writable=True)


def _through_cuts(cluster: Cluster, volume: str, once: Callable[[str], T], bar: Bar, *, writable: bool) -> T:
    """Try, each time in a session that lives, until it is done or brings nothing any more."""
    fruitless = 0
    while True:
        begun = bar.moved
        try:
            with _session(cluster, volume, writable=writable) as session:
                return once(session.id)
        except (ProgramError, ChangedError, BrokenPipeError) as error:
            if isinstance(error, ProgramError) and error.kind not in (CUT_OFF, ChangedError.__name__):
                raise
            fruitless = 0 if bar.moved - begun > 4 * archive.CHUNK else fruitless + 1
            if fruitless == _FRUITLESS_TRIES:
                what = error.what if isinstance(error, ProgramError | PodError) else "The connection broke."
                raise SlipwayError(what, _KEPT) from error
        except SlipwayError as error:  # the way there is barred: by a token that has expired, for one
            if not bar.moved:
                raise
            raise SlipwayError(error.what, f"{error.remedy} {_KEPT}") from error
        say("The transfer was cut; it goes on where it was.")
        time.sleep(_PAUSE_SECONDS)


@contextmanager
def _session(cluster: Cluster, volume: str, *, writable: bool) -> Iterator[Session]:
    """A session for one transfer, which keeps the volume from being deleted meanwhile."""
    session = cluster.sessions.open(volume, writable, reuse=True)
    try:
        yield session
    finally:
        with contextlib.suppress(SlipwayError):
            cluster.sessions.leave(session)


def _key(cluster: Cluster, *parts: str) -> str:
    """Says which transfer this is."""
    return hashlib.sha256(json.dumps([cluster.name, cluster.owner, *parts]).encode()).hexdigest()[:32]


def _listing(source: Path) -> str:
    """What is to be sent, as far as names, sizes and times tell."""
    own = source.stat()
    listed: list[list[str | int]] = [["", own.st_size if source.is_file() else 0, own.st_mtime_ns]]
    for entry in walk(source) if source.is_dir() else ():
        listed.append([entry.path, entry.stat.st_size, entry.stat.st_mtime_ns])
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()


def _size_of(cluster: Cluster, volume: str, path: str) -> int | None:
    """Bytes to come; None if there are too many files to count."""
    listed = cluster.call(volume, "transfer.ls", {"path": path, "recursive": True})
    return None if listed["truncated"] else sum(e["size"] for e in listed["entries"] if e["type"] == "file")


def _refuse_taken(target: Path, replace: bool) -> None:
    if os.path.lexists(target) and not replace:
        raise ConflictError(f"{target} is there already.", "Name another path, or say --replace.")


@contextmanager
def _private(target: Path, key: str) -> Iterator[Path]:
    """A directory beside the target, on the same disk; what has arrived of a transfer that failed stays in it.

    Raises:
        ConflictError: another transfer works in it.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    area = target.parent / f".slipway-get-{key[:12]}"
    area.mkdir(mode=0o700, exist_ok=True)
    keep = False
    with (area / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(f"Another transfer to {target} is under way.", "Wait for its end.") from None
        try:
            yield area
        except BaseException as error:
            refused = isinstance(error, ProgramError) and error.kind == BadInputError.__name__
            keep = not refused and bool(arriving.arrived(area))
            raise
        finally:
            if not keep:
                arriving.discard(area)


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        remedy = f"Make room, or name another place. {_KEPT}" if error.errno == errno.ENOSPC else "Name another place."
        raise SlipwayError(f"{target} can not be written: {error.strerror}.", remedy) from error
