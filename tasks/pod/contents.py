"""Looks into the files of a dataset: whether every row of them can be read, and which columns there are.

Finds a wrong dataset on the CPU. What it finds is written into the manifest; whether it fits is for the plan to say.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tasks.pod.layout import Layout
from tasks.pod.parquet import NoParquetError, read_footer
from tasks.pod.rows import NoRowsError, NotRowsError, Row, format_of, read_rows

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
        "formats": format (of `format_of`) → "files", "rows", "columns" (that every row has), "kinds" (of
        `KINDS`, as "prompt+completion"); and "problems", one sentence each, the first few.
    """
    found: dict[str, _Format] = {}
    problems: list[str] = []
    for path in paths:
        name, problem = format_of(path), ""
        try:
            if name == "parquet":
                found.setdefault(name, _Format()).add_parquet(root / path)
            elif name != "other":
                found.setdefault(name, _Format()).add_rows(read_rows(root / path, most))
        except NotRowsError:
            name = "other"
        except (NoRowsError, NoParquetError) as error:
            problem = str(error)
        found.setdefault(name, _Format()).files += 1
        if problem:
            problems.append(f"{path} {problem}")
    more = len(problems) - _MOST_PROBLEMS
    shown = problems[:_MOST_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
    formats = {name: there.as_json() for name, there in sorted(found.items()) if there.files}
    return {"formats": formats, "problems": shown}


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

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Raises: NoRowsError: saying what is wrong with the file."""
        kinds: dict[str, str] = {}
        try:
            for where, row in rows:
                self._add_row(row)
                kinds.setdefault(_kind(row), where)
        finally:
            self.kinds |= kinds.keys() - {""}
        if not kinds:
            raise NoRowsError("has no rows")
        if len(kinds) > 1:
            (first, at), (second, other) = list(kinds.items())[:2]
            raise NoRowsError(f"mixes examples: {at} has {first or 'no known columns'}, {other} {second or 'none'}")

    def add_parquet(self, path: Path) -> None:
        """Raises: NoParquetError, NoRowsError: saying what is wrong with the file."""
        columns, rows = read_footer(path)
        self.rows += rows
        self._meet(set(columns))
        self.kinds |= {_kind(dict.fromkeys(columns, True))} - {""}
        if not rows:
            raise NoRowsError("has no rows")

    def _add_row(self, row: dict[str, Any]) -> None:
        self.rows += 1
        if self.columns is None or not self.columns <= row.keys():
            self._meet(set(row))

    def _meet(self, columns: set[str]) -> None:
        self.columns = columns if self.columns is None else self.columns & columns


def _kind(row: dict[str, Any]) -> str:
    return next(("+".join(kind) for kind in KINDS if all(row.get(column) is not None for column in kind)), "")
