"""Jobs of the local cluster: processes that outlive whoever submits them, each with a supervisor of its own.

Everything known of a job is in its directory, so any process can ask. Not enforced here: read-only mounts, memory
limits and scratch sizes (memory is counted for the queue), and images (a job runs what is installed here).
"""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from blocks.clusters.errors import ConflictError, InUseError, NotFoundError, SlipwayError
from blocks.clusters.job import Job, JobStatus
from blocks.clusters.local import launch
from blocks.clusters.local.environment import base_environment, look_up
from blocks.clusters.local.files import is_full, keep_reserve, remove_tree, try_lock, write_json
from blocks.clusters.local.log import LogFile
from blocks.clusters.local.observe import observe, observe_all
from blocks.clusters.local.place import Place
from blocks.clusters.local.stop import end_unsupervised
from blocks.clusters.local.supervisor import SECRET
from blocks.clusters.local.volumes import LocalVolumes
from blocks.clusters.port import Capacity

_CODE = Path(__file__).parents[3]
_STARTING_SECONDS = 10.0
"""How long somebody who only looks at a job may keep its lock on a busy machine: whoever starts it sits that out."""
_ENDING_SECONDS = 120.0
"""How long a stop waits, once a job is killed, for that to be on record."""
_CLEANING_SECONDS = 60.0
"""How long a delete waits for an ended job's supervisor."""


class LocalJobs:
    """Jobs of one owner, `<root>/jobs/<owner>/<name>/`.

    Args:
        root: the cluster's.
        owner: whose.
        volumes: the owner's volumes.
        capacity: what the machine has in all.
        project: the directory that jobs import `tasks` from.
        node_cache: where jobs share weights; None if they do not.
    """

    def __init__(
        self,
        root: Path,
        owner: str,
        volumes: LocalVolumes,
        capacity: Capacity,
        project: Path,
        node_cache: Path | None = None,
    ) -> None:
        self._root = root
        self._owner = owner
        self._volumes = volumes
        self._capacity = capacity
        self._project = project
        self._node_cache = node_cache

    def submit(self, job: Job) -> JobStatus:
        launch.check(job, self._capacity)
        place = self._place(job.name)
        if place.read() is None:
            try:
                self._publish(job, place)
            except OSError as error:
                if not is_full(error):
                    raise
                raise SlipwayError(
                    f"The job {job.name!r} was not submitted: the disk under {self._root} is full.", "Make room there."
                ) from error
        submitted = place.read() or {}
        if submitted.get("request_hash", job.request_hash) != job.request_hash:
            raise ConflictError(
                f"A job {job.name!r} exists that was asked for differently.",
                "Choose another name, or delete that job first.",
            )
        if not place.state.exists() and not place.end.exists():
            self._start(job, place)
        return self._status(job.name)

    def status(self, names: Iterable[str]) -> dict[str, JobStatus]:
        found = {name: observe(self._place(name)) for name in names}
        return {name: status for name, status in found.items() if status is not None}

    def find(self, labels: Mapping[str, str]) -> list[JobStatus]:
        return observe_all(self._root, self._owner, labels)

    def watch(self, labels: Mapping[str, str], timeout_seconds: float) -> Iterator[JobStatus]:
        until = time.monotonic() + timeout_seconds
        seen: dict[str, JobStatus] = {}
        while True:
            for status in self.find(labels):
                if seen.get(status.name) != status:
                    seen[status.name] = status
                    yield status
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(0.2, left))

    def logs(self, name: str, since: datetime | None = None, last: int | None = None) -> LogFile:
        """As the port says; a line may come up to half a second too early for `since`, see `log.py`."""
        self._status(name)
        place = self._place(name)
        return LogFile(place.log, place.log_times, since.timestamp() if since else None, last)

    def stop(self, name: str, grace_seconds: float = 30) -> JobStatus:
        place = self._place(name)
        kill_at = time.monotonic() + grace_seconds
        if self._status(name).live:
            place.request_stop(grace_seconds)
        while (status := self._status(name)).live and time.monotonic() < kill_at + _ENDING_SECONDS:
            if end_unsupervised(place, kill_at):
                continue
            supervisor = place.supervisor()
            if supervisor is not None and supervisor.lives:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(supervisor.pid, signal.SIGUSR1)
            time.sleep(0.05)
        return status

    def delete(self, name: str) -> None:
        place = self._place(name)
        status = observe(place)
        if status is None:
            return
        if status.live:
            raise InUseError(f"The job {name!r} is {status.state}.", "Stop it first.")
        with contextlib.suppress(FileNotFoundError):  # somebody else deletes it at the same time
            self._take_away(place, status.uid)
        for left in place.directory.parent.glob(".gone.*"):  # also of deletes that were killed
            remove_tree(left)

    def _take_away(self, place: Place, uid: str) -> None:
        """Make an ended job's name free. Its supervisor still removes its claim and its scratch once the end is on
        record: by their names, which would be the next job's."""
        lock = try_lock(place.lock, patience_seconds=_CLEANING_SECONDS)
        if lock is None:
            raise InUseError(f"The scratch of job {place.name!r} is still being removed.", "Try again in a while.")
        try:
            if (there := observe(place)) is not None and there.uid == uid:
                place.claim.unlink(missing_ok=True)
                place.directory.rename(place.directory.parent / f".gone.{secrets.token_hex(8)}")
        finally:
            os.close(lock)

    def _place(self, name: str) -> Place:
        return Place(self._root, self._owner, name)

    def _status(self, name: str) -> JobStatus:
        status = observe(self._place(name))
        if status is None:
            raise NotFoundError(f"There is no job {name!r}.", "It may have been deleted.")
        return status

    def _publish(self, job: Job, place: Place) -> None:
        """Make the job's directory appear, whole; somebody else's that appears first is fine."""
        look_up(job.secrets, self._root)  # a missing one must not leave a job behind that can not start
        keep_reserve(place.reserve)
        new = place.directory.parent / f".new.{secrets.token_hex(8)}"
        new.mkdir(parents=True)
        try:
            with self._volumes.steady():
                directories = launch.directories(job, self._volumes, place, self._node_cache)
                write_json(new / "job.json", launch.record(job, directories, self._capacity, self._project))
                with contextlib.suppress(OSError):  # not empty: it exists
                    new.rename(place.directory)
        finally:
            remove_tree(new)

    def _start(self, job: Job, place: Place) -> None:
        """Start the job's supervisor unless it has one. The lock decides, and the supervisor inherits it."""
        values = look_up(job.secrets, self._root)
        lock, until = None, time.monotonic() + _STARTING_SECONDS
        while lock is None:
            if place.state.exists() or place.end.exists() or time.monotonic() > until:
                return
            lock = try_lock(place.lock, patience_seconds=0.3)
        try:
            if place.state.exists() or place.end.exists():
                return
            with (place.directory / "supervisor.err").open("wb") as errors:
                started = subprocess.run(
                    [
                        *(sys.executable, "-S", "-m", "blocks.clusters.local.supervisor"),
                        *(str(self._root), self._owner, job.name, str(lock)),
                    ],
                    cwd=_CODE,
                    env={**base_environment(self._project), **{SECRET + k: v for k, v in values.items()}},
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    pass_fds=(lock,),
                )
        finally:
            os.close(lock)
        if started.returncode:
            raise SlipwayError(
                f"The supervisor of job {job.name!r} did not start: {_why(started.returncode, place)}.",
                "Submit it again.",
            )


def _why(code: int, place: Place) -> str:
    try:
        how = f"it was killed by {signal.Signals(-code).name}"
    except ValueError:
        how = f"it exited with code {code}"
    lines = (place.directory / "supervisor.err").read_text(errors="replace").splitlines()
    return f"{how}: {lines[-1]}".rstrip(".") if lines else how
