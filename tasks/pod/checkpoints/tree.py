"""The files of one checkpoint as one directory scan saw them: what every format judges. Links are never followed."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tasks.pod.checkpoints.faults import TornError, UnclearError

MOST_FILES = 200_000
MOST_LEVELS = 32


@dataclass(frozen=True, slots=True)
class File:
    """What `stat` says of a regular file: bytes, and nanoseconds since the epoch."""

    size: int
    mtime: int


@dataclass(frozen=True)
class Tree:
    """A step directory, a directory inside it, or a checkpoint that is a single file.

    Args:
        root: the directory that names are relative to; for a single file, the one it lies in.
        files: regular files by name relative to `root`, with forward slashes.
        directories: names of the directories below it.
        links: symbolic links and other special files, name to target ("" for what is no link).
        single: the name of the file, if the checkpoint is one file.
    """

    root: Path
    files: dict[str, File]
    directories: frozenset[str]
    links: dict[str, str]
    single: str | None = None

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files.values())

    def within(self, directory: str) -> "Tree":
        """The part of the tree below one of its directories."""
        start = f"{directory}/"
        cut = len(start)
        return Tree(
            self.root / directory,
            {name[cut:]: file for name, file in self.files.items() if name.startswith(start)},
            frozenset(name[cut:] for name in self.directories if name.startswith(start)),
            {name[cut:]: target for name, target in self.links.items() if name.startswith(start)},
        )

    def top(self) -> list[str]:
        """Names of the files directly in the directory, sorted."""
        return sorted(name for name in self.files if "/" not in name)

    def has(self, name: str) -> bool:
        """Whether a file is there by that name, even as a link."""
        return name in self.files or name in self.links

    def need(self, name: str, why: str = "is missing") -> File:
        """The file of that name.

        Raises:
            TornError: it is not there.
            UnclearError: a link stands in its place.
        """
        if name in self.files:
            return self.files[name]
        if name in self.links:
            raise UnclearError(f"{name} is a link or a special file, which is not followed")
        raise TornError(f"{name} {why}")

    def read(self, name: str, start: int, length: int) -> bytes:
        """At most `length` bytes of a file from offset `start`; a link that took its place is not followed."""
        descriptor = os.open(f"{self.root}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            return os.pread(descriptor, length, start)
        finally:
            os.close(descriptor)

    def chunks(self, name: str, start: int, length: int, size: int = 1 << 20) -> Iterator[bytes]:
        """`length` bytes of a file from offset `start`, piece by piece.

        Raises:
            TornError: the file ends before.
        """
        descriptor = os.open(f"{self.root}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            while length > 0:
                piece = os.pread(descriptor, min(size, length), start)
                if not piece:
                    raise TornError(f"{name} ends {length:,} bytes early")
                yield piece
                start += len(piece)
                length -= len(piece)
        finally:
            os.close(descriptor)


def scan(path: Path) -> Tree:
    """List a step directory (itself possibly reached through a link), or one file.

    Raises:
        UnclearError: more files or levels than any trainer writes, or names that are no text.
        OSError: it is not there or can not be listed.
    """
    if not path.is_dir():
        seen = path.lstat()
        if not stat.S_ISREG(seen.st_mode):
            return Tree(path.parent, {}, frozenset(), {path.name: ""}, path.name)
        return Tree(path.parent, {path.name: File(seen.st_size, seen.st_mtime_ns)}, frozenset(), {}, path.name)
    files: dict[str, File] = {}
    directories: set[str] = set()
    links: dict[str, str] = {}
    waiting = [("", 0)]
    while waiting:
        below, level = waiting.pop()
        with os.scandir(path / below if below else path) as entries:
            for entry in entries:
                name = below + entry.name
                if entry.is_dir(follow_symlinks=False):
                    directories.add(name)
                    waiting.append((name + "/", level + 1))
                elif entry.is_file(follow_symlinks=False):
                    try:
                        seen = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:  # removed since it was listed, as rotation does: it is not there
                        continue
                    files[name] = File(seen.st_size, seen.st_mtime_ns)
                else:
                    links[name] = str(Path(entry.path).readlink()) if entry.is_symlink() else ""
        if len(files) + len(directories) > MOST_FILES or level > MOST_LEVELS:
            raise UnclearError(
                f"it has more than {MOST_FILES:,} files or {MOST_LEVELS} levels, which is not looked through"
            )
    return Tree(path, files, frozenset(directories), links)
