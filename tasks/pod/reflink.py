"""Shares the bytes of a file with its copy, where the file system can: btrfs, XFS, and NFS that lies on one. Nothing is
read or written, and the copy takes no room until one of the two is changed."""

import contextlib
import fcntl

_FICLONE = 0x40049409  # linux/fs.h


def clone(source: int, target: int) -> bool:
    """Make an empty file a copy of another one; whether that could be.

    Args:
        source, target: descriptors, the second one open for writing.
    """
    with contextlib.suppress(OSError):  # another file system, or one that has no such thing
        fcntl.ioctl(target, _FICLONE, source)
        return True
    return False
