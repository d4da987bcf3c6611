"""Files and directories as a stream, between a volume and a person's disk: the same code at both ends.

A tar stream whose last member says how much there was, because a tar stream that is cut between two members looks
complete. It ends by itself, so that it also works where standard input can not be closed.
"""

import io
import json
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from tasks.pod.area import remove_tree
from tasks.pod.errors import BadInputError, ChangedError, NotThereError
from tasks.pod.layout import real
from tasks.pod.walk import Entry, check_name, walk

_TREE = "tree"
_END = "end"
_MTIME = "SLIPWAY.mtime_ns"  # tar's own is a decimal that Python reads as a float: off by some hundred nanoseconds
_CHUNK = 1 << 20
_RECORD = 10240  # to which a tar stream is padded


@dataclass(frozen=True)
class Totals:
    """How much a stream held: regular files, and their bytes."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Unpacked:
    """What came out of a stream, in a private place.

    Args:
        path: the file or directory; its own mode is set by `place`, because a directory that can not be written can
            not be moved.
        mode, mtime_ns: of `path`, as it was at the other end.
    """

    path: Path
    mode: int
    mtime_ns: int
    totals: Totals


def measure(source: Path) -> Totals:
    """What `pack` would send.

    Raises:
        NotThereError; BadInputError as `walk` does.
    """
    entries = [entry for entry in _entries(source) if stat.S_ISREG(entry.stat.st_mode)]
    return Totals(len(entries), sum(entry.stat.st_size for entry in entries))


def pack(source: Path, out: BinaryIO) -> Totals:
    """Write a file or directory to a stream: names, bytes, modes, mtimes and links that stay inside.

    Raises:
        NotThereError: there is no such file.
        BadInputError: a link that leads outside, a special file, or a name that can not be carried.
        ChangedError: a file shrank or vanished while it was read.
    """
    files = count = written = 0
    for entry in _entries(source):
        member = tarfile.TarInfo(f"{_TREE}/{entry.path}" if entry.path else _TREE)
        member.mode = stat.S_IMODE(entry.stat.st_mode) & 0o777
        member.mtime = entry.stat.st_mtime_ns // 10**9
        member.pax_headers = {_MTIME: str(entry.stat.st_mtime_ns)}
        if entry.link is not None:
            member.type, member.linkname = tarfile.SYMTYPE, entry.link
            written += _write(out, member)
        elif entry.is_directory:
            member.type = tarfile.DIRTYPE
            written += _write(out, member)
        else:
            written += _write_file(out, member, entry)
            files, count = files + 1, count + member.size
    end = tarfile.TarInfo(_END)
    written += _write(out, end, json.dumps({"files": files, "bytes": count}).encode())
    written += out.write(bytes(2 * tarfile.BLOCKSIZE))
    out.write(bytes(-written % _RECORD))
    out.flush()
    return Totals(files, count)


def unpack(stream: BinaryIO, into: Path) -> Unpacked:
    """Read a stream that `pack` wrote into an empty private directory.

    Raises:
        BadInputError: a member that leads outside, or is neither file, directory nor link.
        ChangedError: the stream ended early.
        OSError: the disk is full, for one.
    """
    reading = _Unpacking(into)
    try:
        arriving = _Arriving(stream)
        with tarfile.open(fileobj=cast(BinaryIO, arriving), mode="r|", bufsize=_CHUNK) as tar:
            for member in tar:
                reading.take(tar, member)
        arriving.drain()
    except tarfile.TarError as error:
        raise ChangedError(f"The stream is damaged or ended early ({error}).", "Copy it again.") from error
    return reading.finish()


def place(unpacked: Unpacked, final: Path) -> None:
    """Move what was unpacked to where it belongs, in one step. A file that is there is replaced.

    Raises:
        OSError: a directory is there that is not empty.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    unpacked.path.rename(final)
    if not final.is_symlink():
        final.chmod(unpacked.mode)
        os.utime(final, ns=(unpacked.mtime_ns, unpacked.mtime_ns))


class _Arriving:
    """Gives tarfile what is there, in large pieces, without ever waiting for bytes beyond the end of the archive."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = cast(io.BufferedReader, stream)
        self._taken = 0

    def read(self, size: int) -> bytes:
        chunk = self._stream.read1(size)
        self._taken += len(chunk)
        return chunk

    def drain(self) -> None:
        """Read the padding, so that the writer is not cut off while it writes it."""
        while (left := -self._taken % _RECORD) and self.read(left):
            pass


class _Unpacking:
    """Files first, links and the modes of directories last: nothing is ever written through a link."""

    def __init__(self, into: Path) -> None:
        self._into = into
        self._links: dict[Path, str] = {}
        self._folders: list[tuple[Path, int, int]] = []
        self._root: tuple[int, int] | None = None
        self._files = self._bytes = 0
        self._end: Totals | None = None

    def take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        if member.name == _END and self._root:
            said = json.loads(cast(BinaryIO, tar.extractfile(member)).read())
            self._end = Totals(said["files"], said["bytes"])
            return
        target = self._target(member.name)
        mode, mtime_ns = member.mode & 0o777, _mtime_ns(member)
        if member.name == _TREE:
            self._root = mode, mtime_ns
        if member.isdir():
            target.mkdir(mode=0o700)
            if member.name != _TREE:
                self._folders.append((target, mode, mtime_ns))
        elif member.issym():
            check_name(member.linkname)
            self._links[target] = member.linkname
        elif member.isreg():
            self._write(tar, member, target)
            if member.name != _TREE:
                target.chmod(mode)
            os.utime(target, ns=(mtime_ns, mtime_ns))
        else:
            raise BadInputError(f"{member.name!r} is neither a file, a directory nor a link.", "Leave it out.")

    def finish(self) -> Unpacked:
        found = Totals(self._files, self._bytes)
        if self._root is None or self._end != found:
            raise ChangedError("The stream ended early.", "Copy it again.")
        root = self._into / _TREE
        for link, to in self._links.items():
            self._link(root, link, to)
        for folder, mode, mtime_ns in reversed(self._folders):
            os.utime(folder, ns=(mtime_ns, mtime_ns))
            folder.chmod(mode)
        return Unpacked(root, *self._root, found)

    def _target(self, name: str) -> Path:
        check_name(name)
        pieces = PurePosixPath(name).parts
        if name.startswith("/") or ".." in pieces or pieces[:1] != (_TREE,) or "/".join(pieces) != name:
            raise BadInputError(f"The stream has a member {name!r}, which leads outside.", "Do not unpack it.")
        target = self._into.joinpath(*pieces)
        if any(parent in self._links for parent in target.parents):
            raise BadInputError(f"The stream has a member {name!r} behind a link.", "Do not unpack it.")
        return target

    def _write(self, tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
        source = cast(BinaryIO, tar.extractfile(member))
        with target.open("xb", buffering=0) as out:
            left = member.size
            while left:
                chunk = source.read(min(_CHUNK, left))
                if not chunk:
                    raise ChangedError("The stream ended early.", "Copy it again.")
                written = 0
                while written < len(chunk):
                    written += out.write(chunk[written:])
                left -= len(chunk)
        self._files += 1
        self._bytes += member.size

    def _link(self, root: Path, link: Path, to: str) -> None:
        leads = Path(os.path.normpath(link.parent / to))
        if Path(to).is_absolute() or not leads.is_relative_to(root):
            raise BadInputError(f"The stream has a link that leads outside, to {to!r}.", "Do not unpack it.")
        link.symlink_to(to)
        if not real(link).is_relative_to(real(root)):
            link.unlink()
            raise BadInputError(f"The stream has a link that leads outside, to {to!r}.", "Do not unpack it.")


def _mtime_ns(member: tarfile.TarInfo) -> int:
    exact = member.pax_headers.get(_MTIME, "")
    return int(exact) if exact.isascii() and exact.isdigit() and len(exact) < 20 else round(member.mtime * 1e9)


def discard(into: Path) -> None:
    """Remove a private directory, whatever modes its content got."""
    if into.exists():
        remove_tree(into)


def _entries(source: Path) -> Iterator[Entry]:
    """The file or directory itself, with an empty path, then what is below it."""
    try:
        status = source.stat()  # a link that is named itself stands for what it leads to
    except OSError:
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


def _write_file(out: BinaryIO, member: tarfile.TarInfo, entry: Entry) -> int:
    try:
        file = entry.source.open("rb", buffering=0)
    except FileNotFoundError as error:
        raise _changed(entry) from error
    with file:
        member.size = os.fstat(file.fileno()).st_size
        header = member.tobuf(tarfile.PAX_FORMAT, "utf-8")
        out.write(header)
        buffer = memoryview(bytearray(_CHUNK))
        left = member.size
        while left:
            if not (count := file.readinto(buffer[: min(left, _CHUNK)])):
                raise _changed(entry)
            out.write(buffer[:count])
            left -= count
    padding = bytes(-member.size % tarfile.BLOCKSIZE)
    out.write(padding)
    return len(header) + member.size + len(padding)


def _changed(entry: Entry) -> ChangedError:
    return ChangedError(f"{entry.path or entry.source.name!r} changed while it was read.", "Copy it again.")
