"""Evidence from torch's files: `torch.save` writes a zip archive, whose directory comes last and says where all is.

The format: https://github.com/pytorch/pytorch/blob/main/caffe2/serialize/inline_container.h
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Any

from tasks.pod.checkpoints import inert
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.tree import Tree

_END = b"PK\x05\x06"
_END64 = b"PK\x06\x06"
_LOCATOR64 = b"PK\x06\x07"
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = b"PK\x03\x04"
_MOST_DIRECTORY = 64 << 20
_SPOT_CHECKS = 8
_TAIL = 22 + 20 + 56


@dataclass(frozen=True, slots=True)
class Record:
    """One record of an archive: where its local header begins, how long its bytes are, and their CRC-32."""

    name: str
    header: int
    size: int
    crc: int


@dataclass(frozen=True)
class Archive:
    """A torch file whose directory was read.

    Args:
        file: its name in the tree.
        start: where the archive begins in the file, in bytes.
        records: by name without the leading directory, which is the stem of the file that was first written.
    """

    file: str
    start: int
    records: dict[str, Record]

    def pickle(self, tree: Tree, persistent: list[Any] | None = None) -> Any:
        """What `data.pkl` holds, inert; see `inert.read`."""
        record = self.records["data.pkl"]
        if record.size > inert.MOST_BYTES:
            raise UnclearError(f"the pickle in {self.file} has {record.size:,} bytes, more than is read")
        text = tree.read(self.file, _data(tree, self, record), record.size)
        return inert.read(text, f"the pickle in {self.file}", persistent=persistent)


def check(tree: Tree, name: str, deep: bool = False, start: int = 0, length: int | None = None) -> Archive:
    """Check a torch file, or one in the middle of another, by its directory. Deep: by the CRC-32 of every record.

    Args:
        tree: the checkpoint.
        name: the file.
        deep: read every byte.
        start: where the archive begins in the file, in bytes.
        length: its bytes; to the end of the file if None.

    Raises:
        TornError: it is missing, empty, ends early, or its bytes are not those that were written.
        UnclearError: it is in torch's format of before 1.6, whose end nothing tells, or is no torch file.
    """
    size = tree.need(name).size if length is None else length
    shown = name if length is None else f"the item of {name} at byte {start:,}"
    if size == 0:
        raise TornError(f"{shown} has 0 bytes")
    head = tree.read(name, start, 4)
    if head[:1] == b"\x80":
        raise UnclearError(f"{shown} is in torch's old format, which does not tell where it ends")
    if head != _LOCAL:
        raise TornError(f"{shown} does not begin like a zip archive ({size:,} bytes)")
    where, entries = _directory(tree, name, shown, start, size)
    records = _records(tree, name, shown, start, where, entries)
    if "data.pkl" not in records:
        raise UnclearError(f"{shown} is a zip archive, but not one that torch.save wrote")
    archive = Archive(name, start, records)
    listed = list(records.values())
    for record in listed if deep else listed[:: max(1, len(listed) // _SPOT_CHECKS)]:
        _data(tree, archive, record)
    if deep:
        _check_bytes(tree, archive, shown)
    return archive


def _directory(tree: Tree, name: str, shown: str, start: int, size: int) -> tuple[int, int]:
    """Offset of the central directory from the archive's start, and the number of its entries."""
    tail = tree.read(name, start + max(0, size - _TAIL), min(size, _TAIL))
    end = tail[-22:]
    if len(end) < 22 or end[:4] != _END:
        raise TornError(f"{shown} is cut short at {size:,} bytes: its zip directory is missing")
    entries, length, where = struct.unpack("<H2L", end[10:20])
    at = size - 22
    if tail[-42:-38] == _LOCATOR64:
        at = struct.unpack("<Q", tail[-34:-26])[0]
        record = tree.read(name, start + at, 56) if at < size else b""
        if record[:4] != _END64 or len(record) < 56:
            raise TornError(f"{shown} has a damaged zip directory")
        entries, length, where = struct.unpack("<3Q", record[32:56])
    if where + length != at or length > _MOST_DIRECTORY or entries * _ENTRY.size > length:
        raise TornError(f"{shown} has a zip directory that does not fit its length of {size:,} bytes")
    return where, entries


def _records(tree: Tree, name: str, shown: str, start: int, where: int, entries: int) -> dict[str, Record]:
    directory = tree.read(name, start + where, _MOST_DIRECTORY + 22)
    records: dict[str, Record] = {}
    at = end = 0
    for _ in range(entries):
        if at + _ENTRY.size > len(directory) or directory[at : at + 4] != b"PK\x01\x02":
            raise TornError(f"{shown} has a damaged zip directory")
        fields = _ENTRY.unpack_from(directory, at)
        method, crc, stored, size = fields[4], fields[7], fields[8], fields[9]
        label, extra, comment, header = fields[10], fields[11], fields[12], fields[16]
        called = directory[at + 46 : at + 46 + label].decode("utf-8", "replace")
        more = directory[at + 46 + label : at + 46 + label + extra]
        size, stored, header = _wide(more, size, stored, header)
        if method != 0 or size != stored:
            raise UnclearError(f"{shown} has compressed records, which torch does not write")
        if header < end or header + 30 + size > where:
            raise TornError(f"{shown} has records that overlap or lie outside of it")
        end = header + 30 + size
        short = called.partition("/")[2] or called
        if short in records:
            raise TornError(f"{shown} has two records called {short[:80]}")
        records[short] = Record(called, header, size, crc)
        at += 46 + label + extra + comment
    return records


def _wide(extra: bytes, size: int, stored: int, header: int) -> tuple[int, int, int]:
    """Sizes and offsets above 4 GiB, which stand in an extra field."""
    fields = [size, stored, header]
    if 0xFFFFFFFF not in fields:
        return size, stored, header
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            values = list(struct.unpack_from(f"<{length // 8}Q", extra, at + 4))
            fields = [values.pop(0) if field == 0xFFFFFFFF and values else field for field in fields]
            break
        at += 4 + length
    return fields[0], fields[1], fields[2]


def _data(tree: Tree, archive: Archive, record: Record) -> int:
    """Where a record's bytes begin in the file, by its local header."""
    at = archive.start + record.header
    header = tree.read(archive.file, at, 30 + len(record.name.encode()))
    if header[:4] != _LOCAL or header[30:] != record.name.encode():
        raise TornError(f"{archive.file} has lost what should be at byte {at:,}: the record {record.name[:80]}")
    label, extra = struct.unpack("<2H", header[26:30])
    return int(at + 30 + label + extra)


def _check_bytes(tree: Tree, archive: Archive, shown: str) -> None:
    wrong = []
    for record in archive.records.values():
        crc = 0
        for piece in tree.chunks(archive.file, _data(tree, archive, record), record.size):
            crc = zlib.crc32(piece, crc)
        if crc != record.crc:
            wrong.append(record.name)
    if wrong and len(wrong) == len(archive.records) > 1:
        raise UnclearError(
            f"no record of {shown} has the CRC-32 that it says, as torch writes when told to compute none"
        )
    if wrong:
        raise TornError(f"{shown} has other bytes than were written: the CRC-32 of {wrong[0][:80]} differs")
    persistent: list[Any] = []
    try:
        archive.pickle(tree, persistent)
    except (TornError, UnclearError):  # objects of a trainer's own: the CRC-32 has proven the bytes
        return
    for key in persistent:
        if isinstance(key, tuple) and len(key) > 2 and key[0] == "storage" and f"data/{key[2]}" not in archive.records:
            raise TornError(f"{shown} has no bytes for the tensor storage {str(key[2])[:40]}")
