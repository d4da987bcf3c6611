"""Small text files that appear whole or not at all, also after a crash of the machine."""

import os
import secrets
from pathlib import Path


def replace_text(path: Path, text: str, by_way_of: Path | None = None) -> None:
    """Write a text file so that readers see the old or the new one, whole.

    Args:
        path: its final name.
        text: what it holds.
        by_way_of: a directory of the same file system for the temporary file, where left-overs beside `path` would be
            taken for something; beside it by default.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = (by_way_of or path.parent) / f".{path.name}.{secrets.token_hex(8)}.tmp"
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
