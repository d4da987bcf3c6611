"""The curve of a training: one JSON line a step, appended and flushed."""

import json
import os
from pathlib import Path
from typing import Any


def drop_after(file: Path, step: int) -> None:
    """Drop the lines above a step, and torn ones, so that going on from it leaves no step twice.

    Args:
        file: need not be there. Readers see the old or the new one, whole.
        step: the last that stays.
    """
    if not file.is_file():
        return
    kept = [line for line in file.read_bytes().splitlines() if _step(line) <= step]
    temporary = file.with_name(f".{file.name}.tmp")
    with temporary.open("wb") as out:
        out.writelines(line + b"\n" for line in kept)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(file)


class Metrics:
    """Appends lines.

    Args:
        file: made if it is not there.
    """

    def __init__(self, file: Path) -> None:
        self._out = file.open("ab", buffering=0)

    def add(self, line: dict[str, Any]) -> None:
        self._out.write(json.dumps(line).encode() + b"\n")


def _step(line: bytes) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")
