"""Reads the rows of data files as `datasets.load_dataset` would: JSON lines, JSON, CSV and TSV, compressed or not.

In constant memory but for one row, so that what a small pod looks at may be large.
"""

import bz2
import csv
import gzip
import json
import lzma
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

NOT_DATA = frozenset(("config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"))
"""Names of JSON files that describe a dataset; `datasets` does not read rows from them either."""

_FORMATS = {"jsonl": "jsonl", "ndjson": "jsonl", "json": "json", "csv": "csv", "tsv": "csv", "parquet": "parquet"}
_COMPRESSED = ("gz", "bz2", "xz", "zst")
_PIECE = 1 << 16
_LONGEST_CELL = 1 << 30
_SPACE = " \t\r\n"

Row = tuple[str, dict[str, Any]]


class NoRowsError(Exception):
    """What is wrong with a file, as the rest of a sentence that begins with its name."""


class NotRowsError(NoRowsError):
    """It is JSON, and no table: a description of something, most likely."""


def format_of(path: str) -> str:
    """ "jsonl", "json", "csv" (or with tabs), "parquet", one of the first three with ".gz" or the like, or "other"."""
    name = path.lower().rpartition("/")[2]
    if name in NOT_DATA or name.startswith((".", "_")):
        return "other"
    stem, _, suffix = name.rpartition(".")
    if suffix not in _COMPRESSED:
        return _FORMATS.get(suffix, "other")
    inner = _FORMATS.get(stem.rpartition(".")[2], "other")
    return f"{inner}.{suffix}" if inner in ("jsonl", "json", "csv") else "other"


def read_rows(path: Path, most: int | None = None) -> Iterator[Row]:
    """Each row, with where it is: "line 3", "row 3".

    Args:
        path: of a format that `format_of` names, but Parquet.
        most: bytes to read, after decompression; None for all.

    Raises:
        NoRowsError: the file is not what its name says; rows before that were good.
    """
    name, _, compression = format_of(path.name).partition(".")
    try:
        with _open(path, compression) as file:
            if name == "csv":
                yield from _delimited(file, "\t" if ".tsv" in path.name.lower() else ",", most)
            elif name == "json":
                yield from _json(file, most)
            else:
                yield from _lines(file, most)
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise NoRowsError(f"can not be decompressed: {error}") from None
    except OSError as error:
        if compression and error.errno is None:  # what gzip and bz2 say of bytes that are none
            raise NoRowsError(f"can not be decompressed: {error}") from None
        raise


def _open(path: Path, compression: str) -> IO[bytes]:
    openers: dict[str, Any] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open, "zst": _open_zstandard}
    opener = openers.get(compression, open)
    opened: IO[bytes] = opener(path, "rb")
    return opened


def _open_zstandard(path: Path, mode: str) -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    class File(zstd.ZstdFile):
        """Says of bytes that are none what the other formats say."""

        def readline(self, size: int | None = -1) -> bytes:
            return self._told(super().readline, size)

        def read(self, size: int | None = -1) -> bytes:
            return self._told(super().read, size)

        def __next__(self) -> bytes:
            return self._told(super().__next__)

        @staticmethod
        def _told(read: Any, *arguments: Any) -> bytes:
            try:
                found: bytes = read(*arguments)
            except zstd.ZstdError as error:
                raise EOFError(str(error)) from None
            return found

    return File(path)


def _lines(file: IO[bytes], most: int | None) -> Iterator[Row]:
    read = 0
    for number, line in enumerate(file, 1):
        read += len(line)
        if line.strip():
            yield f"line {number}", _object(line, f"line {number}")
        if most is not None and read >= most:
            return


def _object(text: str | bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except json.JSONDecodeError as error:
        raise NoRowsError(f"{where} is no JSON: {error.msg}, column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise NoRowsError(f"{where} is no JSON: {error}") from None
    if not isinstance(row, dict):
        raise NoRowsError(f"{where} is no JSON object")
    return row


def _json(file: IO[bytes], most: int | None) -> Iterator[Row]:
    """An array of objects, or JSON lines under another name."""
    text = _Text(file, most)
    first = text.peek()
    if not first:
        raise NoRowsError("is empty")
    if first == "[":
        text.skip("[")
        yield from _elements(text)
        return
    for number, value in enumerate(text.values(), 1):
        if not isinstance(value, dict):
            raise NotRowsError("is no table: rows are objects")
        yield f"row {number}", _only(value) if number == 1 and not text.peek() else value


def _only(value: dict[str, Any]) -> dict[str, Any]:
    """The one object of a file, which `load_dataset` takes as one row: seldom what was meant."""
    below = [k for k, v in value.items() if isinstance(v, list) and v and all(isinstance(row, dict) for row in v)]
    if len(below) == 1 and below != ["messages"]:
        raise NoRowsError(
            f"is one object with its rows below {below[0]!r}, where `load_dataset` looks only if it is told to "
            f"(field={below[0]!r}): make it an array, or JSON lines"
        )
    return value


def _elements(text: "_Text") -> Iterator[Row]:
    number = 0
    while text.peek() != "]":
        if not text.peek():
            if text.bounded:
                return
            raise NoRowsError(f"ends after row {number}, in the middle of its array")
        number += 1
        value = text.value(f"row {number}")
        if value is _CUT:
            return
        if not isinstance(value, dict):
            raise NotRowsError(f"is an array whose row {number} is no object")
        yield f"row {number}", value
        if text.peek() == ",":
            text.skip(",")
        elif text.peek() not in ("]", ""):
            raise NoRowsError(f"has no comma after row {number}")


_CUT = object()


class _Text:
    """JSON values one after the other, of a file that need not fit into memory.

    Args:
        most: bytes after which nothing more is read; None for none.
    """

    def __init__(self, file: IO[bytes], most: int | None) -> None:
        import codecs

        self._file, self._most = file, most
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._buffer = ""
        self._read = 0
        self._ended = False
        self.bounded = False

    def peek(self) -> str:
        """The next character that is no space; "" at the end."""
        while True:
            self._buffer = self._buffer.lstrip(_SPACE)
            if self._buffer or not self._more():
                return self._buffer[:1]

    def skip(self, character: str) -> None:
        self._buffer = self._buffer.removeprefix(character)

    def values(self) -> Iterator[Any]:
        number = 0
        while self.peek():
            number += 1
            if (value := self.value(f"row {number}")) is _CUT:
                return
            yield value

    def value(self, where: str) -> Any:
        """The next one; `_CUT` where no more of it is to be read."""
        decode = json.JSONDecoder().raw_decode
        while True:
            try:
                value, end = decode(self._buffer)
            except (ValueError, RecursionError) as error:
                if self._more():
                    continue
                if self.bounded:
                    return _CUT
                raise NoRowsError(f"{where} is no JSON: {error}") from None
            if end == len(self._buffer) and self._more():  # a number may go on
                continue
            self._buffer = self._buffer[end:]
            return value

    def _more(self) -> bool:
        """Read as much again as there is, so that a large value is not begun too often."""
        if self._ended:
            return False
        if self._most is not None and self._read >= self._most:
            self.bounded = self._ended = True
            return False
        piece = self._file.read(max(_PIECE, len(self._buffer)))
        self._read += len(piece)
        self._ended = not piece
        try:
            self._buffer += self._decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            raise NoRowsError(f"is no text in UTF-8: {error}") from None
        return bool(piece)


def _delimited(file: IO[bytes], delimiter: str, most: int | None) -> Iterator[Row]:
    """As pandas reads it: a row may have fewer cells than the header, and not more."""
    csv.field_size_limit(_LONGEST_CELL)
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for number, line in enumerate(file, 1):
            read += len(line)
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise NoRowsError(f"line {number} is no text in UTF-8: {error}") from None

    table = csv.reader(lines(), delimiter=delimiter, strict=True)
    try:
        header = [name or f"Unnamed: {at}" for at, name in enumerate(next((cells for cells in table if cells), []))]
        for cells in table:
            if len(cells) > len(header):
                raise NoRowsError(f"line {table.line_num} has {len(cells)} cells, and there are {len(header)} columns")
            if cells:
                yield f"line {table.line_num}", dict(zip(header, [cell or None for cell in cells], strict=False))
            if most is not None and read >= most:
                return
    except csv.Error as error:
        raise NoRowsError(f"line {table.line_num} is no CSV: {error}") from None
