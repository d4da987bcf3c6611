"""The reading half of a Xet server: reconstructions and xorbs, as the public protocol has them, of files in a folder.

Chunks have one length and are not compressed, and a xorb is named by the sha256 of what is in it: both are for the
writer to choose, and a reader takes them as they come. A file's hash is the one that hf_xet itself computes.
"""

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import hf_xet

CHUNK = 64 << 10
CHUNKS = 16
"""In a xorb: few, so that small files have several."""
_HEADER = 8


@dataclass(frozen=True)
class Xorb:
    """Chunks of a file, each with a header of 8 bytes before it.

    Args:
        start, size: bytes of the file.
    """

    file: Path
    start: int
    size: int

    @property
    def chunks(self) -> int:
        return -(-self.size // CHUNK)

    def serialized(self) -> bytes:
        with self.file.open("rb") as file:
            file.seek(self.start)
            data = memoryview(file.read(self.size))
        return b"".join(_chunk(data[at : at + CHUNK]) for at in range(0, self.size, CHUNK))

    def name(self) -> str:
        return hashlib.sha256(self.serialized()).hexdigest()

    def extent(self, first: int, last: int) -> tuple[int, int]:
        """The bytes [start, end) of the serialized chunks [first, last)."""
        end = self.size + self.chunks * _HEADER if last == self.chunks else last * (CHUNK + _HEADER)
        return first * (CHUNK + _HEADER), end


def _chunk(data: memoryview) -> bytes:
    """Version 0, the length in three bytes, no compression, the length again."""
    length = struct.pack("<I", len(data))[:3]
    return bytes([0]) + length + bytes([0]) + length + data


class XetStorage:
    """What is offered over Xet.

    Args:
        url: where its calls are answered.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._files: dict[str, list[str]] = {}
        self._xorbs: dict[str, Xorb] = {}
        self._hashes: dict[tuple[Path, int], str] = {}

    def add(self, file: Path) -> str:
        """Offer a file; returns its hash."""
        key = (file, file.stat().st_mtime_ns)
        if key not in self._hashes:
            (found,) = hf_xet.hash_files([str(file)])
            size = file.stat().st_size
            per = CHUNK * CHUNKS
            xorbs = [Xorb(file, start, min(per, size - start)) for start in range(0, size, per)]
            names = [xorb.name() for xorb in xorbs]
            self._xorbs |= dict(zip(names, xorbs, strict=True))
            self._files[found.hash] = names
            self._hashes[key] = found.hash
        return self._hashes[key]

    def xorbs_of(self, file_hash: str) -> list[str]:
        return self._files[file_hash]

    def reconstruction(self, file_hash: str, start: int = 0, end: int | None = None) -> bytes | None:
        """How to put bytes [start, end) of a file together, as JSON; None if it has none there.

        Raises:
            KeyError: no such file.
        """
        terms: list[dict[str, object]] = []
        fetch: dict[str, list[dict[str, object]]] = {}
        skipped = 0
        for name, xorb, offset in self._placed(file_hash):
            first = max(0, start - offset) // CHUNK
            last = xorb.chunks if end is None else min(xorb.chunks, -(-(end - offset) // CHUNK))
            if first >= last or offset + xorb.size <= start:
                continue
            if not terms:
                skipped = start - (offset + first * CHUNK)
            there = {"start": first, "end": last}
            low, high = xorb.extent(first, last)
            unpacked = high - low - (last - first) * _HEADER
            terms.append({"hash": name, "unpacked_length": unpacked, "range": there})
            place = {"range": there, "url": f"{self.url}/xorbs/{name}", "url_range": {"start": low, "end": high - 1}}
            fetch.setdefault(name, []).append(place)
        if not terms:
            return None
        return json.dumps({"offset_into_first_range": skipped, "terms": terms, "fetch_info": fetch}).encode()

    def xorb(self, name: str) -> bytes:
        """Raises: KeyError: no such xorb."""
        return self._xorbs[name].serialized()

    def _placed(self, file_hash: str) -> Iterator[tuple[str, Xorb, int]]:
        offset = 0
        for name in self._files[file_hash]:
            yield name, self._xorbs[name], offset
            offset += self._xorbs[name].size
