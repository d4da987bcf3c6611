"""What the shared suite of clusters is written with."""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from blocks.clusters.job import Job, JobState, JobStatus, Mount
from blocks.clusters.port import Capacity, Cluster
from blocks.clusters.volume import Volume, VolumeStatus

GI = 2**30
PATIENCE_SECONDS = 180  # two cores that other work takes need a minute for what they do in a second
REPOSITORY = Path(__file__).parents[3]


@dataclass
class Bench:
    """One cluster under test.

    Args:
        cluster: the cluster: with 2 GPUs of kind h100.
        connect: Python source that binds `cluster` to the same cluster, for another process.
        contains: whether it can keep a job from writing to a read-only mount and from using more memory than it
            asked for. The local cluster can not: its jobs are processes of one user.
        capacity: what it has in all.
        look_seconds: how long to wait between two looks.
    """

    cluster: Cluster
    connect: str
    contains: bool
    capacity: Capacity
    look_seconds: float = 0.02

    def job(self, name: str = "one", code: str = "", *arguments: str, **changes: Any) -> Job:
        """A job that runs Python code, with what it asks for spelt out in its request hash."""
        asked: dict[str, Any] = {
            "name": name,
            "request_hash": "asked",
            "command": ("python", "-c", code, *arguments),
            "cpus": 0.1,
            **changes,
        }
        return Job(**asked)

    def status(self, name: str) -> JobStatus:
        return self.cluster.jobs.status([name])[name]

    def until(self, name: str, *states: JobState) -> JobStatus:
        """Wait until a job is in one of these states."""
        return self.wait(lambda: s if (s := self.status(name)).state in states else None, f"{name} {states}")

    def ended(self, name: str) -> JobStatus:
        """Wait until a job has ended."""
        return self.wait(lambda: None if (s := self.status(name)).live else s, f"{name} to end")

    def wait(self, look: Callable[[], Any], what: str = "it") -> Any:
        """Wait until `look` returns something true, and return that."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not (found := look()):
            if time.monotonic() > until:
                pytest.fail(f"waited {PATIENCE_SECONDS} seconds for {what}: {self.cluster.jobs.find({})}")
            time.sleep(self.look_seconds)
        return found

    def volume(self, name: str = "shelf", size: int = GI) -> Volume:
        """Create a volume and wait until it is ready."""
        self.cluster.volumes.create(name, size)
        ready = VolumeStatus.READY
        return self.wait(lambda: v if (v := self.cluster.volumes.get(name)).status == ready else None, name)

    def elsewhere(self, code: str) -> "subprocess.Popen[str]":
        """Run code in another process that has `cluster` and the names of the port; its pipes are text."""
        head = (
            "import sys\nfrom pathlib import Path\nfrom blocks.clusters.job import *\n"
            f"from blocks.clusters.errors import *\n{self.connect}\n"
        )
        return subprocess.Popen(
            [sys.executable, "-c", head + code],
            cwd=REPOSITORY,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


def on_shelf(**changes: Any) -> Mount:
    """The volume `shelf` at /volume, writable."""
    return Mount(**{"volume": "shelf", "read_only": False, **changes})
