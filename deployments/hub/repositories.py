"""Repositories in a folder, seen the way the Hub sees them: branches, commits, trees, who may read."""

import hashlib
import json
import threading
from dataclasses import dataclass
from pathlib import Path

_LFS_ABOVE = 1_000_000
_LFS_SUFFIXES = frozenset({".arrow", ".bin", ".gguf", ".npy", ".npz", ".parquet", ".pt", ".safetensors"})


@dataclass(frozen=True)
class File:
    """One file of a commit.

    Args:
        path: relative to the repository, with forward slashes.
        source: where its bytes are.
        size: bytes.
        blob: git's SHA-1 of the file, or of its pointer when it is an LFS file.
        sha256: of an LFS file; None for the others, as on the Hub.
    """

    path: str
    source: Path
    size: int
    blob: str
    sha256: str | None

    @property
    def etag(self) -> str:
        return self.sha256 or self.blob

    def as_tree_entry(self) -> dict[str, object]:
        """What `GET /api/…/tree/…` says about it."""
        entry: dict[str, object] = {"type": "file", "path": self.path, "size": self.size, "oid": self.blob}
        if self.sha256:
            pointer_size = len(_pointer(self.sha256, self.size))
            entry["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": pointer_size}
        return entry


@dataclass(frozen=True)
class Commit:
    """A revision: its 40-hex name follows from its content alone."""

    sha: str
    files: dict[str, File]


@dataclass(frozen=True)
class Access:
    """Who may read: from `<repository>.json` beside the repository; without one, everybody.

    Args:
        private: without a token of the list, the repository does not exist.
        gated: without a token of the list, its metadata can be read and its files can not.
        tokens: the accepted ones.
    """

    private: bool = False
    gated: bool = False
    tokens: tuple[str, ...] = ()


class Repositories:
    """`<root>/models/<org>/<name>/` is branch `main` of a model; `…/<name>@<branch>/` are its other branches.

    Datasets are the same below `<root>/datasets/`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._hashes: dict[tuple[str, int, int], tuple[str, str]] = {}
        self._lock = threading.Lock()

    def access(self, kind: str, name: str) -> Access | None:
        """Who may read a repository; None if there is none. `kind` is "models" or "datasets"."""
        home = self._home(kind, name)
        if home is None or not home.is_dir():
            return None
        beside = home.parent / f"{home.name}.json"
        if not beside.is_file():
            return Access()
        said = json.loads(beside.read_text(encoding="utf-8"))
        return Access(bool(said.get("private")), bool(said.get("gated")), tuple(said.get("tokens", ())))

    def branches(self, kind: str, name: str) -> dict[str, Path]:
        """Branch → the folder that holds it."""
        home = self._home(kind, name)
        if home is None or not home.is_dir():
            return {}
        others = {entry.name.split("@", 1)[1]: entry for entry in sorted(home.parent.glob(f"{home.name}@*"))}
        return {"main": home} | others

    def commit(self, kind: str, name: str, revision: str) -> Commit | None:
        """The commit that a branch or a 40-hex name means; None if there is none."""
        branches = self.branches(kind, name)
        if revision in branches:
            return self._read(branches[revision])
        for folder in branches.values():
            commit = self._read(folder)
            if commit.sha == revision:
                return commit
        return None

    def _home(self, kind: str, name: str) -> Path | None:
        pieces = name.split("/")
        if len(pieces) > 2 or any(piece in ("", ".", "..") or "@" in piece for piece in pieces):
            return None
        return self.root.joinpath(kind, *pieces)

    def _read(self, folder: Path) -> Commit:
        files: dict[str, File] = {}
        for source in sorted(folder.rglob("*")):
            if not source.is_file():
                continue
            path = source.relative_to(folder).as_posix()
            size = source.stat().st_size
            blob, sha256 = self._hash(source)
            if size > _LFS_ABOVE or source.suffix in _LFS_SUFFIXES:
                files[path] = File(path, source, size, _git_sha1(_pointer(sha256, size)), sha256)
            else:
                files[path] = File(path, source, size, blob, None)
        listing = "".join(f"{file.blob} {path}\n" for path, file in sorted(files.items()))
        return Commit(hashlib.sha1(listing.encode(), usedforsecurity=False).hexdigest(), files)

    def _hash(self, source: Path) -> tuple[str, str]:
        """The git SHA-1 and the SHA-256 of a file, computed again only when size or mtime changed."""
        stat = source.stat()
        key = (str(source), stat.st_size, stat.st_mtime_ns)
        with self._lock:
            if key not in self._hashes:
                git = hashlib.sha1(b"blob %d\0" % stat.st_size, usedforsecurity=False)
                sha256 = hashlib.sha256()
                with source.open("rb") as file:
                    while chunk := file.read(1 << 20):
                        git.update(chunk)
                        sha256.update(chunk)
                self._hashes[key] = git.hexdigest(), sha256.hexdigest()
            return self._hashes[key]


def _pointer(sha256: str, size: int) -> bytes:
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()


def _git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
