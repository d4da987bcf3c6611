"""Where a job lies on a local cluster, and whether somebody still takes care of it.

A job's directory is `<root>/jobs/<owner>/<name>/`. Free of everything outside the standard library, because the
supervisor starts with it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blocks.clusters.local.files import is_locked, read_json, write_json
from blocks.clusters.local.identity import Identity


@dataclass(frozen=True)
class Place:
    """One job's directory: job.json, then state.json as it goes, then end.json, which is written once.

    Args:
        root: the cluster's.
        owner: the job's owner.
        name: the job's name.
    """

    root: Path
    owner: str
    name: str

    @property
    def directory(self) -> Path:
        return self.root / "jobs" / self.owner / self.name

    @property
    def lock(self) -> Path:
        """Held by the job's supervisor for as long as it lives."""
        return self.directory / "supervisor.lock"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def log_times(self) -> Path:
        """Lines of `<unix time> <size of the log then>`: see `log.py`."""
        return self.directory / "log.times"

    @property
    def scratch(self) -> Path:
        return self.directory / "scratch"

    @property
    def stop_request(self) -> Path:
        return self.directory / "stop.json"

    @property
    def state(self) -> Path:
        """What its supervisor last wrote; missing until one has begun, and then the job never begins again."""
        return self.directory / "state.json"

    @property
    def end(self) -> Path:
        return self.directory / "end.json"

    @property
    def alive(self) -> Path:
        """Locked by the supervisor and, through it, by its program: as long as either lives, the job does."""
        return self.directory / "alive.lock"

    @property
    def claim(self) -> Path:
        """What it takes, or waits for, of the machine: see `slots.py`."""
        return self.root / "slots" / f"{self.owner}.{self.name}.json"

    @property
    def allocation_lock(self) -> Path:
        return self.root / "slots" / "allocation.lock"

    @property
    def reserve(self) -> Path:
        """Room for requests to stop, and for how jobs ended, on a full disk."""
        return self.root / "reserve"

    def read(self) -> dict[str, Any] | None:
        """What was submitted, or None."""
        return read_json(self.directory / "job.json")

    def program(self) -> Identity | None:
        """The program that runs now, or ran last."""
        return _identity(read_json(self.state), "program")

    def supervisor(self) -> Identity | None:
        return _identity(read_json(self.state), "supervisor")

    def lives(self) -> bool:
        """Whether its supervisor lives, or its program although the supervisor is gone."""
        if is_locked(self.lock):
            return True
        program = self.program()
        return not self.end.exists() and program is not None and program.lives

    def write_end(self, end: dict[str, Any]) -> bool:
        """Write down how it ended; the first to do so is right."""
        return write_json(self.end, end, once=True, reserve=self.reserve)

    def request_stop(self, grace_seconds: float) -> None:
        """Ask its supervisor to end it, and to kill it after that time."""
        write_json(self.stop_request, {"grace_seconds": grace_seconds}, reserve=self.reserve)


def _identity(state: dict[str, Any] | None, role: str) -> Identity | None:
    found = (state or {}).get(role)
    return Identity(*found) if found else None
