"""Which process a pid means: pid, start time and boot together, so that a reused pid is never taken for ours.

Free of everything outside the standard library, because the supervisor starts with it.
"""

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Identity(NamedTuple):
    """One process of one boot of this machine.

    Args:
        pid: its process id; of a job's program, also its process group.
        start: its start time as the kernel counts it: text to compare, not a time to read.
        boot: the boot it belongs to.
    """

    pid: int
    start: str
    boot: str

    @property
    def lives(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        return self.boot == boot_id() and _start_time(self.pid) == self.start


def identify(pid: int) -> Identity:
    """The identity of a process that runs now.

    Raises:
        ProcessLookupError: there is none.
    """
    start = _start_time(pid)
    if start is None:
        raise ProcessLookupError(pid)
    return Identity(pid, start, boot_id())


@functools.cache
def boot_id() -> str:
    if sys.platform == "linux":
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    asked = subprocess.run(["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True)
    return asked.stdout.strip()


def _start_time(pid: int) -> str | None:
    """None for a process that is gone or a zombie, which nobody may have reaped where pid 1 is no init."""
    if sys.platform == "linux":
        # Clock ticks since boot: unlike a wall clock time, it does not move when the clock is set.
        try:
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in (b"Z", b"X") else fields[19].decode()
    asked = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}
    )
    state, _, start = asked.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else start.strip()
