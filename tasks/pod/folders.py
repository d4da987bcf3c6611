"""Copies a folder into a staging area: hashed on the way, continued file by file after a kill."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from tasks.pod.area import require_space
from tasks.pod.errors import BadInputError, ChangedError, NotThereError
from tasks.pod.files import Hasher, Proof, prove
from tasks.pod.progress import Progress
from tasks.pod.walk import walk

_CHUNK = 1 << 20


@dataclass(frozen=True)
class SourceFile:
    """A file of the folder: `path` relative to it, `size` in bytes, `mtime_ns` when it was last changed."""

    path: str
    source: Path
    size: int
    mtime_ns: int


def list_folder(path: str) -> list[SourceFile]:
    """The files of a folder on the machine where the job runs; links to files inside it count as files.

    Raises:
        NotThereError: no such folder.
        BadInputError: it is no folder, is empty, or has something that can not be copied (see `walk`).
    """
    folder = Path(path).expanduser()
    if not folder.exists():
        raise NotThereError(f"There is no folder {path!r} where the staging job runs.", "Check the path.")
    if not folder.is_dir():
        raise BadInputError(f"{path!r} is no folder.", "Name the folder that holds the files.")
    files = []
    for entry in walk(folder):
        if entry.is_directory:
            continue
        status = entry.source.stat()
        if entry.link is not None and entry.source.is_dir():
            raise BadInputError(f"{entry.path!r} is a link to a directory.", "Copy the directory (`cp -rL`) first.")
        files.append(SourceFile(entry.path, entry.source, status.st_size, status.st_mtime_ns))
    if not files:
        raise BadInputError(f"The folder {path!r} is empty.", "Name the folder that holds the files.")
    return files


def fingerprint(files: list[SourceFile]) -> str:
    """Changes when a file is added, removed, resized or touched; reads no bytes."""
    listing = [[file.path, file.size, file.mtime_ns] for file in files]
    return hashlib.sha256(json.dumps(listing).encode()).hexdigest()


def copy_folder(files: list[SourceFile], area: Path, tree: Path, progress: Progress) -> dict[str, Proof]:
    """Copy all files below `tree`, keeping what an earlier attempt finished.

    Raises:
        NoSpaceError: before the first byte when the rest does not fit.
        ChangedError: a file changed while it was read.
    """
    tree.mkdir(parents=True, exist_ok=True)
    missing = [file for file in files if not _is_kept(file, tree / file.path)]
    require_space(area, sum(file.size for file in missing))
    proofs = {}
    for file in files:
        target = tree / file.path
        if _is_kept(file, target):
            proofs[file.path] = prove(target)
            progress.add(file.size)
        else:
            proofs[file.path] = _copy(file, target, area, progress)
        progress.finish_file()
    return proofs


def _is_kept(file: SourceFile, target: Path) -> bool:
    try:
        status = target.lstat()
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (file.size, file.mtime_ns)


def _copy(file: SourceFile, target: Path, area: Path, progress: Progress) -> Proof:
    part = area / "part"
    hasher = Hasher(file.size, git=False)
    buffer = memoryview(bytearray(_CHUNK))
    with file.source.open("rb", buffering=0) as source, part.open("wb", buffering=0) as out:
        while count := source.readinto(buffer):
            hasher.update(buffer[:count])
            written = 0
            while written < count:
                written += out.write(buffer[written:count])
            progress.add(count)
        os.fsync(out.fileno())
        status = os.fstat(source.fileno())
    proof = hasher.proof()
    if (status.st_size, status.st_mtime_ns) != (file.size, file.mtime_ns) or proof.size != file.size:
        raise ChangedError(f"{file.path!r} changed while it was read.", "Stage it again once nobody writes to it.")
    os.utime(part, ns=(file.mtime_ns, file.mtime_ns))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    part.rename(target)
    return proof
