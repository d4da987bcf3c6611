"""How full a volume is."""

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.pod.errors import CannotWriteError
from tasks.pod.layout import Layout
from tasks.pod.reserve import is_full


def usage(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the volume holds and what the disk under it has left.

    Args:
        layout: the volume.
        arguments: none.

    Returns:
        "used_bytes" (allocated blocks, a hard-linked file once), "disk_free_bytes" (what is left for us, without what
        the file system keeps for root), "disk_bytes".
    """
    disk = os.statvfs(layout.root)
    return {
        "used_bytes": sum(allocated(layout.root)),
        "disk_free_bytes": disk.f_bavail * disk.f_frsize,
        "disk_bytes": disk.f_blocks * disk.f_frsize,
    }


def room(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """What can still be written to the volume: to its size, and to the disk under it.

    What it holds is counted only where that can matter: a disk that is no larger than the volume, which most claims
    have to themselves, is full first.

    Args:
        layout: the volume.
        arguments: "size_bytes", the volume's.

    Returns:
        "free_bytes", and which is full first: "first_full" is "volume" or "disk".
    """
    disk = os.statvfs(layout.root)
    free = disk.f_bavail * disk.f_frsize
    if disk.f_blocks * disk.f_frsize > arguments["size_bytes"]:
        left = max(0, arguments["size_bytes"] - sum(allocated(layout.root)))
        if left <= free:
            return {"free_bytes": left, "first_full": "volume"}
    return {"free_bytes": free, "first_full": "disk"}


def probe(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """The same as `room`, once it is shown that files can be written and read back here.

    Raises:
        CannotWriteError: they can not; says who we are and whose the volume is.
    """
    try:
        layout.trash.mkdir(parents=True, exist_ok=True)  # where what a killed probe leaves is taken away
        with tempfile.TemporaryDirectory(dir=layout.trash, prefix="probe-") as area:
            path, text = Path(area) / "written", secrets.token_hex(8)
            path.write_text(text)
            if path.read_text() != text:
                raise CannotWriteError("What is written to the volume is not what is read.", "Mend its storage.")
    except OSError as error:
        if not is_full(error):  # that is what the numbers are for
            raise _cannot_write(layout, error) from error
    return room(layout, arguments)


def _cannot_write(layout: Layout, error: OSError) -> CannotWriteError:
    place = layout.ours if layout.ours.exists() else layout.root
    shown = "/volume" if place == layout.root else f"/volume/{layout.relative(place)}"
    status = place.stat()
    return CannotWriteError(
        f"User {os.getuid()} can not write to the volume: {error.strerror}. {shown} belongs to "
        f"{status.st_uid}:{status.st_gid}, mode {stat.S_IMODE(status.st_mode):o}.",
        f"Give it to that user (chown {os.getuid()}:{os.getgid()}); storage that ignores fsGroup does not do it.",
    )


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
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif status.st_nlink > 1:
                    if (status.st_dev, status.st_ino) in seen:
                        continue
                    seen.add((status.st_dev, status.st_ino))
                yield status.st_blocks * 512
