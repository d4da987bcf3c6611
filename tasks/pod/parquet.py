"""Reads the footer of a Parquet file: whether the file is whole, its columns and its rows. No data, no pyarrow.

The footer is a Thrift struct in the compact protocol; ids as in parquet-format's `parquet.thrift`: FileMetaData {2:
schema, 3: num_rows}, SchemaElement {4: name, 5: num_children}.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

_LARGEST_FOOTER = 64 << 20
_DEEPEST = 32


class NoParquetError(Exception):
    """Why a file is no whole Parquet file."""


def read_footer(path: Path) -> tuple[list[str], int]:
    """The names of the top-level columns, and the number of rows.

    Raises:
        NoParquetError: the file is cut, encrypted, or none.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < 12:
            raise NoParquetError(f"has {size} bytes, which is no Parquet file")
        file.seek(0)
        head = file.read(4)
        file.seek(size - 8)
        tail = file.read(8)
        if tail[4:] == b"PARE":
            raise NoParquetError("is encrypted")
        if head != b"PAR1" or tail[4:] != b"PAR1":
            raise NoParquetError("does not begin and end as a Parquet file does: it may be cut")
        length = int.from_bytes(tail[:4], "little")
        if not 0 < length <= min(size - 12, _LARGEST_FOOTER):
            raise NoParquetError(f"says that its footer has {length} bytes, and the file has {size}")
        file.seek(size - 8 - length)
        footer = file.read(length)
    try:
        found = _Compact(footer).struct()
        schema, rows = found[2], found[3]
        names = [element[4].decode() for element in schema]
        children = [element.get(5, 0) for element in schema]
        return _top_level(names, children), int(rows)
    except (IndexError, KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise NoParquetError("has a footer that can not be read") from error


def _top_level(names: list[str], children: list[int]) -> list[str]:
    """The schema is a tree in depth-first order, its root first."""
    found, place = [], 1
    for _ in range(children[0]):
        found.append(names[place])
        left = 1
        while left:
            left += children[place] - 1
            place += 1
    return found


class _Compact:
    """Thrift's compact protocol, as far as a footer needs it: a struct is field id → value."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._depth = 0

    def struct(self) -> dict[int, Any]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._zigzag()
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind)
        self._depth -= 1
        return fields

    def _value(self, kind: int) -> Any:
        readers: dict[int, Callable[[], Any]] = {
            1: self._byte,  # booleans in lists
            2: self._byte,
            3: self._byte,
            4: self._zigzag,
            5: self._zigzag,
            6: self._zigzag,
            7: lambda: self._take(8),
            8: lambda: self._take(self._varint()),
            9: self._list,
            10: self._list,
            11: self._map,
            12: self.struct,
        }
        return readers[kind]()

    def _list(self) -> list[Any]:
        head = self._byte()
        count, kind = head >> 4, head & 15
        if count == 15:
            count = self._varint()
        if count > len(self._data):
            raise ValueError("longer than the footer")
        return [self._value(kind) for _ in range(count)]

    def _map(self) -> dict[Any, Any]:
        count = self._varint()
        if not count:
            return {}
        kinds = self._byte()
        if count > len(self._data):
            raise ValueError("longer than the footer")
        return {self._value(kinds >> 4): self._value(kinds & 15) for _ in range(count)}

    def _byte(self) -> int:
        value = self._data[self._at]
        self._at += 1
        return value

    def _take(self, count: int) -> bytes:
        value = self._data[self._at : self._at + count]
        if len(value) != count:
            raise ValueError("ends early")
        self._at += count
        return value

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number with too many digits")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
