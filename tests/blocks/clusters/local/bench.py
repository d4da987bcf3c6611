"""A bench with what only the local cluster has: its files, its processes."""

import os
import signal
from pathlib import Path
from typing import Any

from blocks.clusters.local.identity import Identity
from blocks.clusters.local.place import Place
from tests.blocks.clusters.bench import Bench

SLEEP = "import time; print('up', flush=True); time.sleep(600)"


class LocalBench(Bench):
    """A bench whose jobs' processes can be looked at and killed."""

    root: Path

    def place(self, name: str) -> Place:
        return Place(self.root, self.cluster.owner, name)

    def running(self, name: str, code: str = SLEEP, **changes: Any) -> Identity:
        """Submit a job, wait until its program says so, and return its program."""
        self.cluster.jobs.submit(self.job(name, code, **changes))
        self.wait(lambda: "up" in self.cluster.jobs.logs(name), f"{name} to be up")
        program = self.place(name).program()
        assert program is not None
        return program

    def kill_supervisor(self, name: str) -> None:
        supervisor = self.place(name).supervisor()
        assert supervisor is not None
        os.kill(supervisor.pid, signal.SIGKILL)
        self.wait(lambda: not supervisor.lives, "the supervisor to be gone")
