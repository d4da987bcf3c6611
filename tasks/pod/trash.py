"""Takes things off a volume so that a kill at any point loses nothing: renamed away first, then removed; what a killed
removal leaves is finished by the next. And how many bytes that frees, where other links keep some."""

import contextlib
import os
import secrets
import shutil
import time
from pathlib import Path

from tasks.pod.layout import Layout

_OURS = "prune."
_ABANDONED = 3600.0  # seconds after which what others renamed away, and did not remove, is taken for left behind


class Links:
    """The bytes that go free as trees are removed one after another: a file's, with the last of its links."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], int] = {}

    def free(self, path: Path) -> int:
        """The allocated bytes that go free when a tree, or a file, is removed after those before."""
        freed = self._of(path)
        if path.is_symlink():
            return freed
        for folder, folders, files in os.walk(path):
            freed += sum(self._of(Path(folder) / name) for name in (*folders, *files))
        return freed

    def _of(self, path: Path) -> int:
        try:
            status = path.lstat()
        except FileNotFoundError:
            return 0
        if path.is_dir() and not path.is_symlink():
            return status.st_blocks * 512
        key = (status.st_dev, status.st_ino)
        self._seen[key] = self._seen.get(key, 0) + 1
        return status.st_blocks * 512 if self._seen[key] == status.st_nlink else 0


def take_away(layout: Layout, path: Path) -> bool:
    """Rename something into the trash, then remove it; False if it was gone already."""
    layout.trash.mkdir(parents=True, exist_ok=True)
    away = layout.trash / f"{_OURS}{path.name[:100]}.{secrets.token_hex(8)}"
    try:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)  # a directory that gets another parent must be writable
        path.rename(away)
    except FileNotFoundError:
        return False
    remove(away)
    return True


def leftovers(layout: Layout) -> list[Path]:
    """What killed removals left in the trash."""
    found = []
    for path in sorted(layout.trash.iterdir()) if layout.trash.is_dir() else ():
        with contextlib.suppress(FileNotFoundError):
            if path.name.startswith(_OURS) or time.time() - path.lstat().st_ctime > _ABANDONED:
                found.append(path)
    return found


def remove(path: Path) -> None:
    """Remove a tree, also one that was made read-only, and also while another call removes it."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for folder, _, _ in os.walk(path):
        with contextlib.suppress(FileNotFoundError):
            Path(folder).chmod(0o755)
    shutil.rmtree(path, ignore_errors=True)


def last_change(path: Path) -> float:
    """When anything in a tree was last written, linked or renamed, in seconds since 1970."""
    newest = 0.0
    for folder, _, files in os.walk(path):
        for name in (Path(folder), *(Path(folder) / file for file in files)):
            with contextlib.suppress(FileNotFoundError):
                status = name.lstat()
                newest = max(newest, status.st_mtime, status.st_ctime)
    if not newest:
        with contextlib.suppress(FileNotFoundError):
            newest = max(path.lstat().st_mtime, path.lstat().st_ctime)
    return newest
