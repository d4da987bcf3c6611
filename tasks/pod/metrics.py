"""Metrics files: JSON lines that a trainer appends to. Reads only what is new, and never half a line."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

NOT_FINITE = "not_finite"
"""The key of a row that names its values that are NaN or infinite; they themselves are null, which JSON can say."""

_TAIL_BYTES = 16_384


def read_metrics(path: Path, offset: int = 0) -> tuple[list[dict[str, Any]], int]:
    """Return the whole lines from `offset` on, and where to go on.

    A file that has become shorter than `offset` was written anew (a resumed trainer cuts it back): it is read from
    the start, and the returned offset tells so by being below the given one or past the whole file.

    Args:
        path: the file; one that is not there has no lines.
        offset: bytes that were read before.
    """
    try:
        with path.open("rb") as file:
            if offset > file.seek(0, 2):
                offset = 0
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], 0
    whole = data[: data.rfind(b"\n") + 1]
    return [row for line in whole.splitlines() if (row := _row(line))], offset + len(whole)


def last_metrics(path: Path) -> dict[str, Any] | None:
    """The last whole line that has a step, or None."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return None
    rows, _ = read_metrics(path, max(0, size - _TAIL_BYTES))
    return rows[-1] if rows else None


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict):
        return None
    for name, theirs in (("step", "current_steps"), ("loss", "loss/mean")):  # LLaMA-Factory's, prime-rl's
        if name not in row and theirs in row:
            row[name] = row[theirs]
    if not isinstance(row.get("step"), int):
        return None
    unsound = [k for k, v in row.items() if isinstance(v, float) and not math.isfinite(v)]
    return {**row, **dict.fromkeys(unsound), NOT_FINITE: unsound} if unsound else row


def by_step(
    rows: Iterable[dict[str, Any]], known: Mapping[int, dict[str, Any]] | None = None
) -> dict[int, dict[str, Any]]:
    """One row a step: lines of one step (a loss, an evaluation) are one row; what was trained again counts once.

    Args:
        known: rows from before.
    """
    found = dict(known or {})
    for row in rows:
        found[row["step"]] = {**found.get(row["step"], {}), **row}
    return found
