"""Files and directories as a stream, between a volume and a person's disk: the same code at both ends.

A tar stream whose last member says how much there was and what it hashes to, because a tar stream that is cut between
two members looks complete. It ends by itself, so that it also works where standard input can not be closed. What the
other end has of an earlier try (`arriving.arrived`) is not sent again; it is hashed like the rest. `arriving` reads it.
"""

import json
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import BinaryIO, cast

import xxhash

from tasks.pod.errors import BadInputError, ChangedError, NotThereError
from tasks.pod.walk import Entry, walk

TREE = "tree"
END = "end"
MTIME = "SLIPWAY.mtime_ns"  # tar's own is a decimal that Python reads as a float: off by some hundred nanoseconds
OFFSET = "SLIPWAY.offset"
HOLES = "SLIPWAY.holes"
CHUNK = 1 << 20
RECORD = 10240  # to which a tar stream is padded


@dataclass(frozen=True)
class Totals:
    """How much a stream held: regular files, and their bytes."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Arrived:
    """What the other end already has of a file, from a transfer that was cut.

    Args:
        at: how many bytes.
        size, mtime_ns: of the file then: another file of that name begins anew.
    """

    at: int
    size: int
    mtime_ns: int


def measure(source: Path) -> Totals:
    """What `pack` would send.

    Raises:
        NotThereError; BadInputError as `walk` does.
    """
    entries = [entry for entry in _entries(source) if stat.S_ISREG(entry.stat.st_mode)]
    return Totals(len(entries), sum(entry.stat.st_size for entry in entries))


def pack(source: Path, out: BinaryIO, have: Mapping[str, Arrived] | None = None) -> Totals:
    """Write a file or directory to a stream: names, bytes, modes, mtimes and links that stay inside.

    Args:
        have: path → what the other end has of it; "" for a file that is named itself.

    Raises:
        NotThereError: there is no such file.
        BadInputError: a link that leads outside, a special file, or a name that can not be carried.
        ChangedError: a file shrank or vanished while it was read.
    """
    files = count = written = 0
    hashes: dict[str, str] = {}
    out = cast(BinaryIO, _Gathering(out))
    for entry in _entries(source):
        member = tarfile.TarInfo(f"{TREE}/{entry.path}" if entry.path else TREE)
        member.mode = stat.S_IMODE(entry.stat.st_mode) & 0o777
        member.mtime = entry.stat.st_mtime_ns // 10**9
        member.pax_headers = {MTIME: str(entry.stat.st_mtime_ns)}
        if entry.link is not None:
            member.type, member.linkname = tarfile.SYMTYPE, entry.link
            written += _write(out, member)
        elif entry.is_directory:
            member.type = tarfile.DIRTYPE
            written += _write(out, member)
        else:
            hasher = xxhash.xxh3_128()
            size, sent = _write_file(out, member, entry, (have or {}).get(entry.path), hasher)
            hashes[entry.path] = hasher.hexdigest()
            files, count, written = files + 1, count + size, written + sent
    end = tarfile.TarInfo(END)
    written += _write(out, end, json.dumps({"files": files, "bytes": count, "xxh3": hashes}).encode())
    written += out.write(bytes(2 * tarfile.BLOCKSIZE))
    out.write(bytes(-written % RECORD))
    out.flush()
    return Totals(files, count)


class _Gathering:
    """Small writes as large ones: each would be a message of its own on its way through a cluster's API."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._kept = bytearray()

    def write(self, content: bytes) -> int:
        if len(self._kept) + len(content) > CHUNK:
            self.flush()
        if len(content) < CHUNK:
            self._kept += content
        else:
            self._out.write(content)
        return len(content)

    def flush(self) -> None:
        self._out.write(bytes(self._kept))
        self._kept.clear()
        self._out.flush()


def _entries(source: Path) -> Iterator[Entry]:
    """The file or directory itself, with an empty path, then what is below it."""
    try:
        status = source.stat()  # a link that is named itself stands for what it leads to
    except PermissionError as error:
        raise _unreadable(source.name) from error
    except OSError:
        if source.is_symlink():
            what = f"{source.name!r} is a symbolic link that leads nowhere."
            raise BadInputError(what, "Remove it, or restore its target.") from None
        raise NotThereError(f"There is no {source.name!r} there.", "List the directory above it.") from None
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise BadInputError(f"{source.name!r} is neither a file nor a directory.", "Name one of these.")
    yield Entry("", source, status)
    if stat.S_ISDIR(status.st_mode):
        yield from walk(source)


def _write(out: BinaryIO, member: tarfile.TarInfo, content: bytes = b"") -> int:
    member.size = len(content)
    header = member.tobuf(tarfile.PAX_FORMAT, "utf-8")
    padding = bytes(-member.size % tarfile.BLOCKSIZE)
    out.write(header + content + padding)
    return len(header) + len(content) + len(padding)


def _write_file(
    out: BinaryIO, member: tarfile.TarInfo, entry: Entry, arrived: Arrived | None, hasher: xxhash.xxh3_128
) -> tuple[int, int]:
    """The file's size, and how many bytes were written."""
    try:
        file = entry.source.open("rb", buffering=0)
    except FileNotFoundError as error:
        raise _changed(entry) from error
    except PermissionError as error:
        raise _unreadable(entry.path or entry.source.name) from error
    with file:
        now, offset = os.fstat(file.fileno()), 0
        size = now.st_size
        if now.st_blocks * 512 < size:
            member.pax_headers = {**member.pax_headers, HOLES: "yes"}
        if arrived and (arrived.size, arrived.mtime_ns) == (size, entry.stat.st_mtime_ns) and arrived.at <= size:
            offset = arrived.at
            member.pax_headers = {**member.pax_headers, OFFSET: str(offset)}
        member.size = size - offset
        for _ in _pieces(file, offset, entry, hasher):
            pass
        header = member.tobuf(tarfile.PAX_FORMAT, "utf-8")
        out.write(header)
        for piece in _pieces(file, member.size, entry, hasher):
            out.write(piece)
    padding = bytes(-member.size % tarfile.BLOCKSIZE)
    out.write(padding)
    return size, len(header) + member.size + len(padding)


def _pieces(file: FileIO, count: int, entry: Entry, hasher: xxhash.xxh3_128) -> Iterator[memoryview]:
    """So many bytes of a file, hashed."""
    buffer = memoryview(bytearray(CHUNK))
    while count:
        if not (read := file.readinto(buffer[: min(count, CHUNK)])):
            raise _changed(entry)
        hasher.update(buffer[:read])
        yield buffer[:read]
        count -= read


def _unreadable(path: str) -> BadInputError:
    who = f"User {os.getuid()} may not read {path!r}."
    return BadInputError(who, "Give that user the right to, or leave it out.")


def _changed(entry: Entry) -> ChangedError:
    return ChangedError(f"{entry.path or entry.source.name!r} changed while it was read.", "Copy it again.")
