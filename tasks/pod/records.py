"""Write-once records: what was decided is written down before it is done, the first writer wins, nothing changes."""

import json
import os
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tasks.pod.errors import ChangedError

Shape = Mapping[str, "type | tuple[type, ...] | Shape"]
"""What a record has at least: by key the type of its value (`datetime`: one as ISO text), or the shape of a table."""

NOTHING: Shape = {}


def write_once(path: Path, record: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Write a record unless it is there; return what the file holds and whether this call wrote it.

    The file appears whole or not at all, also after a crash of the machine: temporary file, fsync, hard link to the
    final name (which fails if it exists), fsync of the directory.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}.tmp"
    try:
        with temporary.open("x", encoding="utf-8") as file:
            json.dump(record, file, indent=1, sort_keys=True)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(temporary)
            created = True
        except FileExistsError:
            created = False
    finally:
        temporary.unlink(missing_ok=True)
    if created:
        sync(path.parent)
        return record, True
    return read_record(path), False


def replace(path: Path, record: dict[str, Any]) -> None:
    """Write a file that may change (a progress note, a cache) so that readers see the old or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}.tmp"
    temporary.write_text(json.dumps(record), encoding="utf-8")
    temporary.replace(path)


def read_record(path: Path, shape: Shape = NOTHING) -> dict[str, Any]:
    """Read a record that has at least the keys of a shape, each with a value of its type.

    Raises:
        FileNotFoundError: there is none.
        ChangedError: it is not the JSON object that was written.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ChangedError(
            f"The record {path} is damaged: {error}.", "Restore it from a backup of the volume."
        ) from error
    if not isinstance(record, dict):
        raise ChangedError(f"The record {path} is no JSON object.", "Restore it from a backup of the volume.")
    if wrong := _wrong(record, shape):
        raise ChangedError(
            f"The record {path} is damaged: it has no {', '.join(wrong)}, or another kind of value there.",
            "Restore it from a backup of the volume.",
        )
    return record


def _wrong(record: Mapping[str, Any], shape: Shape) -> list[str]:
    """The keys, dotted, that are not there or have another kind of value."""
    found = []
    for key, kind in shape.items():
        value = record.get(key)
        if isinstance(kind, Mapping):
            found += [f"{key}.{inner}" for inner in _wrong(value, kind)] if isinstance(value, dict) else [key]
        elif key not in record or not _is(value, kind):
            found.append(key)
    return found


def _is(value: Any, kind: type | tuple[type, ...]) -> bool:
    if kind is not datetime:
        return isinstance(value, kind)
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return True


def read_if_there(path: Path, shape: Shape = NOTHING) -> dict[str, Any] | None:
    try:
        return read_record(path, shape)
    except FileNotFoundError:
        return None


def sync(path: Path) -> None:
    """Make a file, or new names in a directory, outlive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
