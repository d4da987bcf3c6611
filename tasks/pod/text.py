"""Small text files that appear whole or not at all."""

import secrets
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Write a text file so that readers see the old or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}.tmp"
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
