"""The fingerprint of a checkpoint: another one means other bytes.

Two hashes with a hyphen between: names, sizes and times of all files, then the same with head and tail of each. So the
first half can be compared by listing alone. Inode and ctime are left out: a hard link elsewhere has the same one.
"""

import hashlib
import os
from pathlib import Path

from tasks.pod.checkpoints.tree import Tree, scan

_PIECE = 4096


def fingerprint(path: Path) -> str:
    """The fingerprint of a step directory or a single file.

    Raises:
        UnclearError: it has more files than any trainer writes.
        OSError: it is not there.
    """
    return of(scan(path))


def listed(tree: Tree) -> str:
    """The first half: names, sizes and times."""
    digest = hashlib.sha256()
    for name, file in sorted(tree.files.items()):
        digest.update(f"{name}\0{file.size}\0{file.mtime}\n".encode(errors="surrogateescape"))
    for name, target in sorted(tree.links.items()):
        digest.update(f"{name}\0-> {target}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:24]


def of(tree: Tree) -> str:
    """The fingerprint of a tree that was just listed; a file that can not be read counts by its name, size and time."""
    first = listed(tree)
    digest = hashlib.sha256(first.encode())
    for name, file in sorted(tree.files.items()):
        digest.update(f"{name}\0".encode(errors="surrogateescape"))
        try:
            descriptor = os.open(f"{tree.root}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            digest.update(os.pread(descriptor, _PIECE, 0))
            if file.size > _PIECE:
                digest.update(os.pread(descriptor, _PIECE, max(_PIECE, file.size - _PIECE)))
        finally:
            os.close(descriptor)
    return f"{first}-{digest.hexdigest()[:32]}"


def same_listing(one: str, tree: Tree) -> bool:
    """Whether a fingerprint can still be true of a tree, by names, sizes and times alone."""
    return one.partition("-")[0] == listed(tree)
