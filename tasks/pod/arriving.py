"""What `archive.pack` sent, coming in: into a private place first, where a transfer that is cut can be gone on with.

A journal in that place says which file each left-over belongs to. Nothing is written through a link, and nothing is
whole before every file has the hash that the other end gave it.
"""

import contextlib
import io
import json
import os
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

import xxhash

from tasks.pod.archive import CHUNK, END, HOLES, MTIME, OFFSET, RECORD, TREE, Arrived, Totals
from tasks.pod.area import remove_tree
from tasks.pod.errors import BadInputError, ChangedError
from tasks.pod.layout import real
from tasks.pod.walk import check_name

_JOURNAL = "arrived.jsonl"


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


def arrived(into: Path) -> dict[str, Arrived]:
    """What an earlier try left of each file, for the other end to go on from."""
    found: dict[str, Arrived] = {}
    with contextlib.suppress(FileNotFoundError), (into / _JOURNAL).open(encoding="utf-8") as journal:
        for line in journal:
            with contextlib.suppress(ValueError, OSError):  # the last line may be torn
                path, size, mtime_ns = json.loads(line)
                target = into / TREE / path if path else into / TREE
                if target.is_file() and not target.is_symlink():
                    found[path] = Arrived(min(size, target.stat().st_size), size, mtime_ns)
    return found


def to_json(have: dict[str, Arrived]) -> dict[str, dict[str, int]]:
    return {path: asdict(there) for path, there in have.items()}


def from_json(have: dict[str, dict[str, Any]]) -> dict[str, Arrived]:
    return {path: Arrived(**there) for path, there in have.items()}


def unpack(stream: BinaryIO, into: Path) -> Unpacked:
    """Read a stream that `pack` wrote into a private directory: an empty one, or one that an earlier try left.

    Raises:
        BadInputError: a member that leads outside, or is neither file, directory nor link.
        ChangedError: the stream ended early, or bytes arrived that were not sent; what is good of it stays.
        OSError: the disk is full, for one.
    """
    _reopen(into / TREE)
    with (into / _JOURNAL).open("a", encoding="utf-8") as journal:
        reading = _Unpacking(into, journal)
        try:
            pieces = _Arriving(stream)
            with tarfile.open(fileobj=cast(BinaryIO, pieces), mode="r|", bufsize=CHUNK) as tar:
                for member in tar:
                    reading.take(tar, member)
            pieces.drain()
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


def discard(into: Path) -> None:
    """Remove a private directory, whatever modes its content got."""
    if into.exists():
        remove_tree(into)


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
        while (left := -self._taken % RECORD) and self.read(left):
            pass


class _Unpacking:
    """Files first, links and modes last: nothing is ever written through a link, or into what can not be written."""

    def __init__(self, into: Path, journal: io.TextIOWrapper) -> None:
        self._into = into
        self._journal = journal
        self._links: dict[Path, str] = {}
        self._modes: list[tuple[Path, int, int]] = []
        self._root: tuple[int, int] | None = None
        self._hashes: dict[str, str] = {}
        self._bytes = 0
        self._end: dict[str, Any] | None = None

    def take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        if member.name == END and self._root:
            self._end = json.loads(cast(BinaryIO, tar.extractfile(member)).read())
            return
        target = self._target(member.name)
        mode, mtime_ns = member.mode & 0o777, _mtime_ns(member)
        if member.name == TREE:
            self._root = mode, mtime_ns
        elif not member.issym():
            self._modes.append((target, mode, mtime_ns))
        if member.isdir():
            if target.is_file():
                target.unlink()
            target.mkdir(mode=0o700, exist_ok=True)
        elif member.issym():
            check_name(member.linkname)
            self._links[target] = member.linkname
        elif member.isreg():
            path = member.name.removeprefix(TREE).removeprefix("/")
            self._hashes[path] = self._write(tar, member, target, path, mtime_ns)
        else:
            raise BadInputError(f"{member.name!r} is neither a file, a directory nor a link.", "Leave it out.")

    def finish(self) -> Unpacked:
        found = Totals(len(self._hashes), self._bytes)
        if self._root is None or self._end is None or self._end.get("files") != found.files:
            raise ChangedError("The stream ended early.", "Copy it again.")
        root = self._into / TREE
        damaged = [path for path, told in self._hashes.items() if self._end.get("xxh3", {}).get(path) != told]
        for path in damaged:
            (root / path if path else root).unlink()
        if damaged or self._end.get("bytes") != found.bytes:
            raise ChangedError(f"{len(damaged)} files arrived damaged, {damaged[:1]} for one.", "Copy it again.")
        self._drop_others(root)
        for link, to in self._links.items():
            self._link(root, link, to)
        for target, mode, mtime_ns in reversed(self._modes):
            os.utime(target, ns=(mtime_ns, mtime_ns))
            target.chmod(mode)
        return Unpacked(root, *self._root, found)

    def _target(self, name: str) -> Path:
        check_name(name)
        pieces = PurePosixPath(name).parts
        if name.startswith("/") or ".." in pieces or pieces[:1] != (TREE,) or "/".join(pieces) != name:
            raise BadInputError(f"The stream has a member {name!r}, which leads outside.", "Do not unpack it.")
        target = self._into.joinpath(*pieces)
        if any(parent in self._links for parent in target.parents):
            raise BadInputError(f"The stream has a member {name!r} behind a link.", "Do not unpack it.")
        return target

    def _write(self, tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, path: str, mtime_ns: int) -> str:
        """Write a file, or the rest of one, and return what all of it hashes to."""
        source = cast(BinaryIO, tar.extractfile(member))
        offset = max(0, _whole_number(member.pax_headers.get(OFFSET, "")) or 0)
        hasher = xxhash.xxh3_128()
        if path in self._hashes:
            raise BadInputError(f"The stream has {member.name!r} twice.", "Do not unpack it.")
        if not offset:
            _clear(target)
        with target.open("r+b" if offset else "xb", buffering=0) as out:
            _hash(out, offset, hasher)
            out.truncate(offset)
            self._journal.write(json.dumps([path, offset + member.size, mtime_ns]) + "\n")
            self._journal.flush()
            left = member.size
            while left:
                chunk = source.read(min(CHUNK, left))
                if not chunk:
                    raise ChangedError("The stream ended early.", "Copy it again.")
                _write(out, chunk, holes=HOLES in member.pax_headers)
                hasher.update(chunk)
                left -= len(chunk)
        self._bytes += offset + member.size
        return hasher.hexdigest()

    def _drop_others(self, root: Path) -> None:
        """What an earlier try brought and is not at the other end any more."""
        wanted = {root, *(target for target, _, _ in self._modes), *self._links}
        for folder, folders, files in os.walk(root, topdown=False):
            for name in (*files, *folders):
                path = Path(folder, name)
                if path not in wanted:
                    _clear(path)

    def _link(self, root: Path, link: Path, to: str) -> None:
        leads = Path(os.path.normpath(link.parent / to))
        if Path(to).is_absolute() or not leads.is_relative_to(root):
            raise BadInputError(f"The stream has a link that leads outside, to {to!r}.", "Do not unpack it.")
        _clear(link)
        link.symlink_to(to)
        if not real(link).is_relative_to(real(root)):
            link.unlink()
            raise BadInputError(f"The stream has a link that leads outside, to {to!r}.", "Do not unpack it.")


def _reopen(root: Path) -> None:
    """Make what an earlier try left writable again, without its links."""
    for folder, folders, files in os.walk(root):
        Path(folder).chmod(0o700)
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink():
                path.unlink()
            elif path.is_file():
                path.chmod(0o600)


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def _write(out: io.FileIO, chunk: bytes, *, holes: bool) -> None:
    """Add to the end of a file; where it had holes, zeros as one."""
    if holes and not chunk.strip(b"\0"):
        out.truncate(out.seek(0, io.SEEK_END) + len(chunk))
        out.seek(0, io.SEEK_END)
        return
    written = 0
    while written < len(chunk):
        written += out.write(chunk[written:])


def _hash(file: io.FileIO, count: int, hasher: xxhash.xxh3_128) -> None:
    """Raises: ChangedError: the file is shorter than that."""
    while count:
        chunk = file.read(min(count, CHUNK))
        if not chunk:
            raise ChangedError("What was there of an earlier try is gone.", "Copy it again.")
        hasher.update(chunk)
        count -= len(chunk)


def _mtime_ns(member: tarfile.TarInfo) -> int:
    exact = _whole_number(member.pax_headers.get(MTIME, ""))
    return round(member.mtime * 1e9) if exact is None else exact


def _whole_number(text: str) -> int | None:
    digits = text.removeprefix("-")  # a time before 1970
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
