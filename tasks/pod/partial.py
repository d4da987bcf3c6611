"""A file that is on its way: what has arrived, its hash so far, and where the next attempt goes on."""

import os
from pathlib import Path

from tasks.pod.files import File, Hasher
from tasks.pod.progress import Progress

_CHUNK = 1 << 18


class Partial:
    """A file that is on its way, with the hash of what is there so far.

    Opening one reads what an earlier attempt left, so that in the end every byte of the file has been hashed.
    """

    def __init__(self, path: Path, file: File, progress: Progress) -> None:
        self.file = file
        self._progress = progress
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self.done = 0
        self.hasher = self._new_hasher()
        buffer = memoryview(bytearray(_CHUNK))
        while count := os.readv(self.descriptor, [buffer]):
            self._count(buffer[:count])
        if self.done > file.size:
            self.restart()

    def __enter__(self) -> "Partial":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def append(self, chunk: memoryview) -> None:
        written = 0
        while written < len(chunk):  # so much at a time as stays in the cache of a core; larger writes cost ext4 more
            count = os.write(self.descriptor, chunk[written : written + _CHUNK])
            self._count(chunk[written : written + count])
            written += count

    def restart(self) -> None:
        os.ftruncate(self.descriptor, 0)
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        self._progress.add(-self.done)
        self.done = 0
        self.hasher = self._new_hasher()

    def _new_hasher(self) -> Hasher:
        return Hasher(self.file.size, git=bool(self.file.git_sha1 and not self.file.sha256))

    def _count(self, chunk: memoryview) -> None:
        self.hasher.update(chunk)
        self.done += len(chunk)
        self._progress.add(len(chunk))
