"""How full a volume is."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.pod.layout import Layout


def usage(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the volume holds and what the disk under it has left.

    Args:
        layout: the volume.
        arguments: none.

    Returns:
        "used_bytes" (allocated blocks, a hard-linked file once), "disk_free_bytes" (what is left for us, without what
        the file system keeps for root), "disk_bytes".
    """
    stat = os.statvfs(layout.root)
    return {
        "used_bytes": sum(allocated(layout.root)),
        "disk_free_bytes": stat.f_bavail * stat.f_frsize,
        "disk_bytes": stat.f_blocks * stat.f_frsize,
    }


def allocated(root: Path, seen: set[tuple[int, int]] | None = None) -> Iterator[int]:
    """The allocated bytes of everything below a directory, and of itself; a hard-linked file counts once."""
    seen = set() if seen is None else seen
    yield root.lstat().st_blocks * 512
    if root.is_symlink() or not root.is_dir():
        return
    folders = [os.fspath(root)]
    while folders:
        try:
            scan = os.scandir(folders.pop())
        except (FileNotFoundError, PermissionError):  # a run may remove a directory while we look
            continue
        with scan:
            for entry in scan:
                try:
                    stat = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif stat.st_nlink > 1:
                    if (stat.st_dev, stat.st_ino) in seen:
                        continue
                    seen.add((stat.st_dev, stat.st_ino))
                yield stat.st_blocks * 512
