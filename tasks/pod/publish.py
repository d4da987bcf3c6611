"""Makes a finished tree visible in one step, unchangeable; and moves what stands in its place out of sight."""

import os
import secrets
from pathlib import Path

from tasks.pod.area import remove_tree
from tasks.pod.layout import Layout
from tasks.pod.records import sync


def freeze(tree: Path, final: Path) -> None:
    """Rename a finished tree to its final name; its files become 0444, its directories 0555.

    Raises:
        OSError: the final name is taken.
    """
    for folder, folders, files in os.walk(tree):
        for name in files:
            (Path(folder) / name).chmod(0o444)
        for name in folders:
            (Path(folder) / name).chmod(0o555)
        sync(Path(folder))
    final.parent.mkdir(parents=True, exist_ok=True)
    tree.rename(final)
    # a directory that changes its parent must be writable while it does
    final.chmod(0o555)
    sync(final.parent)


def set_aside(layout: Layout, path: Path) -> None:
    """Take a directory away: renamed first, so that it is gone at once, then removed."""
    layout.trash.mkdir(parents=True, exist_ok=True)
    aside = layout.trash / f"{path.name[:100]}.{secrets.token_hex(4)}"
    if path.is_dir() and not path.is_symlink():
        path.chmod(0o755)
    path.rename(aside)
    if aside.is_dir() and not aside.is_symlink():
        remove_tree(aside)
    else:
        aside.unlink()
