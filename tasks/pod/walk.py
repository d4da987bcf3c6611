"""Lists a directory that people give us, and refuses what could not be copied faithfully or safely."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tasks.pod.errors import BadInputError, ChangedError
from tasks.pod.layout import real


@dataclass(frozen=True)
class Entry:
    """One thing in the directory.

    Args:
        path: relative to the directory, with forward slashes.
        source: where it is.
        stat: of itself, not of what a link leads to.
        link: where a symbolic link leads, as written; None if it is none.
    """

    path: str
    source: Path
    stat: os.stat_result
    link: str | None = None

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.stat.st_mode)


def walk(root: Path) -> Iterator[Entry]:
    """Everything below `root`, sorted, directories before what is in them.

    Raises:
        BadInputError: a link that leads outside or nowhere, a special file, a name with control characters or that is
            no text.
        ChangedError: something vanished meanwhile: under its new name it may have been missed.
    """
    yield from _walk(root, root.resolve(), "")


def check_name(path: str) -> None:
    """Raises: BadInputError if a file name can not be carried faithfully."""
    if any(ord(c) < 32 or ord(c) == 127 or 0xD800 <= ord(c) <= 0xDFFF for c in path):
        raise BadInputError(f"{path!r} has control characters, or is not UTF-8.", "Rename it.")


def _walk(folder: Path, root: Path, prefix: str) -> Iterator[Entry]:
    try:
        with os.scandir(folder) as scan:
            found = sorted(scan, key=lambda entry: entry.name)
    except PermissionError as error:
        who = f"User {os.getuid()} may not look into {prefix or folder.name!r}."
        raise BadInputError(who, "Give that user the right to, or leave it out.") from error
    except FileNotFoundError as error:
        raise _vanished(prefix or folder.name) from error
    for item in found:
        path = f"{prefix}{item.name}"
        check_name(path)
        source = Path(item.path)
        try:
            status = item.stat(follow_symlinks=False)
            link = _checked_link(source, root, path) if stat.S_ISLNK(status.st_mode) else None
        except FileNotFoundError as error:
            raise _vanished(path) from error
        if stat.S_ISDIR(status.st_mode):
            yield Entry(path, source, status)
            yield from _walk(source, root, f"{path}/")
        elif link is not None or stat.S_ISREG(status.st_mode):
            yield Entry(path, source, status, link)
        else:
            raise BadInputError(f"{path!r} is neither a file nor a directory.", "Remove it, or leave it out.")


def _vanished(path: str) -> ChangedError:
    return ChangedError(f"{path!r} vanished, or was renamed, while it was looked at.", "Copy it again.")


def _checked_link(source: Path, root: Path, path: str) -> str:
    link = str(source.readlink())
    check_name(link)
    target = real(source)
    if Path(link).is_absolute() or not target.is_relative_to(root):
        raise BadInputError(
            f"{path!r} is a symbolic link that leads outside, to {link!r}.", "Copy what it leads to (`cp -rL`) first."
        )
    if not target.exists():
        raise BadInputError(f"{path!r} is a symbolic link that leads nowhere.", "Remove it, or restore its target.")
    return link
