"""One file that is to be staged, and the hashes that prove its bytes."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.pod.errors import BadInputError
from tasks.pod.layout import volume_relative
from tasks.pod.pieces import PieceHasher

_CHUNK = 1 << 20


@dataclass(frozen=True)
class File:
    """What a file must be.

    Args:
        path: relative, with forward slashes.
        size: bytes.
        sha256: of its bytes, where its origin says so; else None.
        git_sha1: git's SHA-1 of a file without `sha256`; of the LFS pointer otherwise; None where there is no git.
        xet_hash: where the Hub offers the file over Xet.
    """

    path: str
    size: int
    sha256: str | None
    git_sha1: str | None = None
    xet_hash: str | None = None

    @classmethod
    def from_json(cls, file: dict[str, Any]) -> "File":
        check_path(file["path"])
        return cls(file["path"], file["size"], file.get("sha256"), file.get("git_sha1"), file.get("xet_hash"))

    @property
    def key(self) -> str:
        """Equal for files with equal bytes, as far as their origin tells."""
        return f"sha256:{self.sha256}" if self.sha256 else f"git:{self.git_sha1}"

    def is_proven_by(self, proof: "Proof") -> bool:
        if proof.size != self.size:
            return False
        return proof.sha256 == self.sha256 if self.sha256 else proof.git_sha1 == self.git_sha1


def check_path(path: str) -> None:
    """Raises: BadInputError if a file could land outside the directory that it belongs in."""
    if volume_relative(path) != path or path == ".":
        raise BadInputError(f"A file has a name that can not be used: {path!r}.", "It can not be staged.")


@dataclass(frozen=True)
class Proof:
    """What the bytes of a file turned out to be; `xxh3` is the fast hash of `tasks.pod.pieces`, "" where unknown."""

    size: int
    sha256: str
    git_sha1: str
    xxh3: str = ""


class Hasher:
    """Hashes a file of known size, fed in pieces; as git does only where there is no sha256 to hold it against."""

    def __init__(self, size: int, git: bool) -> None:
        self._sha256 = hashlib.sha256()
        self._git = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False) if git else None
        self._pieces = PieceHasher()
        self._size = 0

    def update(self, chunk: memoryview | bytes) -> None:
        self._sha256.update(chunk)
        if self._git:
            self._git.update(chunk)
        self._pieces.update(chunk)
        self._size += len(chunk)

    def proof(self) -> Proof:
        git = self._git.hexdigest() if self._git else ""
        return Proof(self._size, self._sha256.hexdigest(), git, self._pieces.hexdigest())


def prove(path: Path, git: bool = False) -> Proof:
    """Read a whole file and say what it is."""
    with path.open("rb", buffering=0) as file:
        hasher = Hasher(os.fstat(file.fileno()).st_size, git)
        buffer = memoryview(bytearray(_CHUNK))
        while count := file.readinto(buffer):
            hasher.update(buffer[:count])
    return hasher.proof()
