"""A cluster on one machine: volumes are directories, jobs are processes. Needs nothing but Python."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psutil

from blocks.clusters.errors import NotFoundError
from blocks.clusters.job import Job, SecretRef
from blocks.clusters.local.call import LocalStream, call_program, stream_program
from blocks.clusters.local.environment import look_up
from blocks.clusters.local.jobs import LocalJobs
from blocks.clusters.local.observe import observe_live
from blocks.clusters.local.sessions import LocalSessions
from blocks.clusters.local.volumes import LocalVolumes
from blocks.clusters.names import check_name
from blocks.clusters.port import Capacity, Finding


class LocalCluster:
    """The local cluster as one owner sees it. All state is files under `root`, shared by any number of processes.

    One machine only: locks and processes are not seen from another one, whatever file system `root` is on.

    Args:
        root: where everything is.
        name: the cluster's name.
        owner: whose volumes and jobs.
        cpus: cores to give to jobs; all there are by default.
        memory_bytes: memory to give to jobs; all there is by default.
        gpus: GPU kind → count, in the order of the GPUs' indices. They are not looked for.
        node_cache: where runs share copies of weights, on the disk that is wanted for them; None for no such cache.
        node_cache_bytes: its limit.
        poll_seconds: how often to look while following a run.
        project: the directory that jobs import `tasks` from; this one's by default.
    """

    def __init__(
        self,
        root: Path,
        *,
        name: str = "local",
        owner: str = "me",
        cpus: int | None = None,
        memory_bytes: int | None = None,
        gpus: Mapping[str, int] | None = None,
        node_cache: Path | None = None,
        node_cache_bytes: int = 0,
        poll_seconds: float = 1.0,
        project: Path | None = None,
    ) -> None:
        self.name = name
        self.owner = check_name("owner", owner)
        self.poll_seconds = poll_seconds
        self._root = Path(os.path.abspath(root.expanduser()))  # noqa: PTH100 - keeps links as they were named
        self._project = project or Path(__file__).parents[3]
        self._capacity = Capacity(
            cpus=cpus or _cpus(),
            memory_bytes=memory_bytes or psutil.virtual_memory().total,
            gpus=dict(gpus or {}),
            node_cache_bytes=node_cache_bytes if node_cache else None,
        )
        self.volumes = LocalVolumes(self._root, owner, name, self._used_by)
        self.jobs = LocalJobs(self._root, owner, self.volumes, self._capacity, self._project, node_cache)
        self.sessions = LocalSessions(self._root, owner, self.volumes, self._project)

    def call(
        self,
        volume: str | None,
        program: str,
        arguments: Mapping[str, Any],
        *,
        writable: bool = False,
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, SecretRef] | None = None,
        timeout_seconds: float = 600,
    ) -> dict[str, Any]:
        """As the port says. `writable` is not enforced: the volume is a directory of the same user."""
        return call_program(
            program,
            arguments,
            volume=None if volume is None else self.volumes.check_mountable(volume),
            env=env or {},
            secrets=look_up(secrets or {}, self._root),
            project=self._project,
            timeout_seconds=timeout_seconds,
        )

    def stream(
        self,
        volume: str,
        program: str,
        arguments: Mapping[str, Any],
        *,
        writable: bool = False,
        session: str | None = None,
    ) -> AbstractContextManager[LocalStream]:
        """As the port says. `writable` is not enforced, and a session is no place of its own."""
        directory = self.volumes.check_mountable(volume)
        return stream_program(program, arguments, volume=directory, project=self._project)

    def capacity(self) -> Capacity:
        there = next(path for path in (self._root, *self._root.parents) if path.exists())
        stat = os.statvfs(there)
        return self._capacity.model_copy(update={"scratch_free_bytes": stat.f_bavail * stat.f_frsize})

    def preflight(self, job: Job, new_volumes: Mapping[str, int]) -> list[Finding]:
        """As the port says: a secret may be missing, or several nodes be asked for."""
        found = []
        try:
            look_up(job.secrets, self._root)
        except NotFoundError as error:
            found.append(Finding(subject="secrets", level="blocked", detail=error.what, remedy=error.remedy))
        if job.nodes != 1:
            detail = f"the run asks for {job.nodes} nodes, and cluster {self.name} is one."
            found.append(Finding(subject="nodes", level="blocked", detail=detail, remedy="Ask for one."))
        return found

    def _used_by(self) -> Mapping[str, Sequence[str]]:
        """Volume → the live jobs and people's sessions that mount it."""
        users: dict[str, list[str]] = {}
        for status in observe_live(self._root, self.owner):
            for volume in {mount.volume for mount in status.mounts}:
                users.setdefault(volume, []).append(f"job {status.name}")
        for session in self.sessions.list():
            if not session.internal:
                users.setdefault(session.volume, []).append(f"session {session.id}")
        return users


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
