"""Looks into the files of a dataset: whether every JSON line parses and Parquet is whole, and which columns there are.

Finds a wrong dataset on the CPU. What it finds is written into the manifest; whether it fits is for the plan to say.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tasks.pod.layout import Layout
from tasks.pod.parquet import NoParquetError, read_footer

KINDS = (("messages",), ("prompt", "completion"), ("text",))
"""Columns that make an example of a kind; the first that fits counts."""

_MOST_PROBLEMS = 20


def look(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """What is in a directory on the volume that was not staged; reads no more than the first lines of large files.

    Args:
        arguments: "path"; "most" (bytes of each file to read; null: all).
    """
    root = layout.resolve(arguments["path"])
    paths = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return look_into(root, paths, most=arguments.get("most"))


def look_into(root: Path, paths: Iterable[str], *, most: int | None = None) -> dict[str, Any]:
    """What is in some files.

    Returns:
        "formats": format ("jsonl", "parquet", "other") → "files", "rows", "columns" (that every row has), "kinds" (of
        `KINDS`, as "prompt+completion"); and "problems", one sentence each, the first few.
    """
    found: dict[str, _Format] = {}
    problems: list[str] = []
    for path in paths:
        name = _format_of(path)
        there = found.setdefault(name, _Format())
        there.files += 1
        problem = ""
        if name == "jsonl":
            problem = there.add_lines(root / path, most)
        elif name == "parquet":
            problem = there.add_parquet(root / path)
        if problem:
            problems.append(f"{path} {problem}")
    more = len(problems) - _MOST_PROBLEMS
    shown = problems[:_MOST_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
    return {"formats": {name: there.as_json() for name, there in sorted(found.items())}, "problems": shown}


def _format_of(path: str) -> str:
    suffix = path.lower().rpartition(".")[2]
    return {"jsonl": "jsonl", "ndjson": "jsonl", "parquet": "parquet"}.get(suffix, "other")


class _Format:
    """The files of one format, taken together."""

    def __init__(self) -> None:
        self.files = self.rows = 0
        self.columns: set[str] | None = None
        self.kinds: set[str] = set()

    def as_json(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "rows": self.rows,
            "columns": sorted(self.columns or ()),
            "kinds": sorted(self.kinds),
        }

    def add_lines(self, path: Path, most: int | None) -> str:
        """Read a file of JSON lines; returns what is wrong with it, or ""."""
        kinds: dict[str, int] = {}
        read = 0
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                read += len(line)
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    return f"line {number} is no JSON: {error}"
                if not isinstance(row, dict):
                    return f"line {number} is no JSON object"
                self._add_row(row)
                kinds.setdefault(_kind(row), number)
                if most is not None and read >= most:
                    break
        self.kinds |= kinds.keys() - {""}
        if not kinds:
            return "has no lines"
        if len(kinds) > 1:
            (first, at), (second, other) = list(kinds.items())[:2]
            return f"mixes examples: line {at} has {first or 'no known columns'}, line {other} {second or 'none'}"
        return ""

    def add_parquet(self, path: Path) -> str:
        try:
            columns, rows = read_footer(path)
        except NoParquetError as error:
            return str(error)
        self.rows += rows
        self._meet(set(columns))
        self.kinds |= {_kind(dict.fromkeys(columns, True))} - {""}
        return "" if rows else "has no rows"

    def _add_row(self, row: dict[str, Any]) -> None:
        self.rows += 1
        if self.columns is None or not self.columns <= row.keys():
            self._meet(set(row))

    def _meet(self, columns: set[str]) -> None:
        self.columns = columns if self.columns is None else self.columns & columns


def _kind(row: dict[str, Any]) -> str:
    return next(("+".join(kind) for kind in KINDS if all(row.get(column) is not None for column in kind)), "")
