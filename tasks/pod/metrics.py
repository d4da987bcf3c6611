"""Metrics files: JSON lines that a trainer appends to. Reads only what is new, and never half a line."""

import json
import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeGuard

NOT_FINITE = "not_finite"
"""The key of a row that names its values that are NaN or infinite; they themselves are null, which JSON can say."""

_TAIL_BYTES = 16_384
_LONGEST_LINE = 2**20
_LAST_STEP = 2**53


def read_metrics(path: Path, offset: int = 0) -> tuple[list[dict[str, Any]], int]:
    """Return the whole lines from `offset` on, and where to go on.

    Of each line, what is plain: a number that is not finite is None, and a null is left out, as are lists and tables.
    A line that is no such thing is passed over: what a trainer writes must never end what follows it.

    A file that has become shorter than `offset` was written anew (a resumed trainer cuts it back): it is read from
    the start, and the returned offset tells so by being below the given one or past the whole file.

    Args:
        path: the file; one that is not there, or is no file that can be read, has no lines.
        offset: bytes that were read before.
    """
    try:
        file = _open(path)
    except OSError:
        return [], 0
    with file:
        if offset > file.seek(0, 2):
            offset = 0
        file.seek(offset)
        rows = []
        for line in _lines(file):
            offset += len(line)
            if row := _row(line):
                rows.append(row)
    return rows, offset


def last_metrics(path: Path) -> dict[str, Any] | None:
    """The last whole line that has a step, or None."""
    try:
        size = path.stat().st_size
    except OSError:
        return None
    rows, _ = read_metrics(path, max(0, size - _TAIL_BYTES))
    return rows[-1] if rows else None


def _open(path: Path) -> IO[bytes]:
    """A trainer may have left anything under that name: a pipe to nobody would hold up whoever opens it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(path)
    return os.fdopen(descriptor, "rb")


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Whole lines; of one that is too long, pieces, so that it is neither kept in memory nor read at every look."""
    while (line := file.readline(_LONGEST_LINE)).endswith(b"\n") or len(line) == _LONGEST_LINE:
        yield line


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line, parse_float=float, parse_int=_whole, parse_constant=lambda word: math.nan)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    row = {_text(k): _plain(v) for k, v in found.items() if v is not None and not isinstance(v, dict | list)}
    row.pop(NOT_FINITE, None)
    for name, theirs in (("step", "current_steps"), ("loss", "loss/mean")):  # LLaMA-Factory's, prime-rl's
        if name not in row and theirs in row:
            row[name] = row[theirs]
    if "loss" in row and row["loss"] is not None and not is_number(row["loss"]):
        del row["loss"]
    step = row.get("step")
    if not is_number(step) or not 0 <= step < _LAST_STEP or step != int(step):
        return None
    unsound = {NOT_FINITE: [k for k, v in row.items() if v is None]}
    return {**row, "step": int(step), **(unsound if unsound[NOT_FINITE] else {})}


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value of a row can be compared and drawn."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) < 19 else float(digits)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    """Without halves of characters, which JSON can have and no file or database."""
    return text.encode("utf-8", "replace").decode("utf-8")


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
