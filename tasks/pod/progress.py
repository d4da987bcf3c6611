"""What a staging job has done so far, for its log and for those who wait for it."""

import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tasks.pod.records import replace
from tasks.pod.sizes import size_text

_NOTE_EVERY = 0.4
_LOG_EVERY = 5.0


class Progress:
    """What a staging job has done so far, written to its area a few times a second and to stderr every few seconds.

    Args:
        area: the staging area.
        what: what is staged, for people.
        bytes_total: bytes of all files.
        files_total: number of files.
    """

    def __init__(self, area: Path, what: str, bytes_total: int, files_total: int) -> None:
        self.area = area
        self.what = what
        self.bytes_total = bytes_total
        self.files_total = files_total
        self.bytes_done = 0
        self.files_done = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._started = time.monotonic()

    def add(self, count: int) -> None:
        """Count bytes; negative when some turn out to be wrong."""
        with self._lock:
            self.bytes_done += count

    def finish_file(self) -> None:
        with self._lock:
            self.files_done += 1

    def __enter__(self) -> Self:
        self._note("running")
        self._log()
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._ticker.join()
        try:
            self._note("failed" if kind else "published", str(error) if error else None)
        except OSError:
            if not kind:
                raise  # on a full disk the error that is on its way matters more than its note
        if not kind:
            seconds = time.monotonic() - self._started
            print(
                f"staged {self.what}: {self.files_total} files, {size_text(self.bytes_total)}, {seconds:.1f} s",
                file=sys.stderr,
                flush=True,
            )

    def _tick(self) -> None:
        logged = time.monotonic()
        while not self._ended.wait(_NOTE_EVERY):
            try:
                self._note("running")
            except OSError:
                continue  # a full disk: the writers report it
            if time.monotonic() - logged >= _LOG_EVERY:
                logged = time.monotonic()
                self._log()

    def _note(self, state: str, error: str | None = None) -> None:
        note = {
            "state": state,
            "what": self.what,
            "bytes_done": self.bytes_done,
            "bytes_total": self.bytes_total,
            "files_done": self.files_done,
            "files_total": self.files_total,
            "updated_at": time.time(),
        }
        replace(self.area / "progress.json", note | ({"error": error} if error else {}))

    def _log(self) -> None:
        share = 100 * self.bytes_done / self.bytes_total if self.bytes_total else 100
        print(
            f"staging {self.what}: {size_text(self.bytes_done)} of {size_text(self.bytes_total)} ({share:.0f} %),"
            f" {self.files_done} of {self.files_total} files",
            file=sys.stderr,
            flush=True,
        )
