"""Runs one command and says what it and all that came of it took: `python adopting.py RESULT ARGV…` (Linux).

Unlike `child.py` it counts processes that were left behind (supervisors of the local cluster, servers of Ray): in a
control group where one can be made, else by adopting them, which misses those whose own parent waits for nobody.
"""

import contextlib
import ctypes
import json
import os
import resource
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36
_GROUPS = (("/sys/fs/cgroup/cpuacct", "cpuacct.usage"), ("/sys/fs/cgroup", "cpu.stat"))

RESULT, *ARGV = sys.argv[1:]


def make_group() -> tuple[str, str] | None:
    """A group of its own for this process and its children: where it is, and the file that counts."""
    for root, counter in _GROUPS:
        group = f"{root}/slipway-{os.getpid()}"
        with contextlib.suppress(OSError):
            os.mkdir(group)  # noqa: PTH102 - as in child.py
            if os.path.exists(f"{group}/{counter}"):  # noqa: PTH110
                with open(f"{group}/cgroup.procs", "w") as file:  # noqa: PTH123
                    file.write(str(os.getpid()))
                return group, counter
    return None


def counted(group: str, counter: str) -> float:
    """CPU seconds."""
    with open(f"{group}/{counter}") as file:  # noqa: PTH123
        text = file.read()
    return int(text) / 1e9 if counter == "cpuacct.usage" else int(text.split("usage_usec", 1)[1].split()[0]) / 1e6


ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
made = make_group()
before = counted(*made) if made else 0.0
begun = time.monotonic()
pid = os.posix_spawn(ARGV[0], ARGV, os.environ)
_, status, mine = os.wait4(pid, 0)
wall = time.monotonic() - begun
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = counted(*made) - before if made else usage.ru_utime + usage.ru_stime
taken = {"code": os.waitstatus_to_exitcode(status), "wall": wall, "cpu": cpu, "peak": mine.ru_maxrss * 1024}
if made:
    with contextlib.suppress(OSError):
        with open(f"{os.path.dirname(made[0])}/cgroup.procs", "w") as file:  # noqa: PTH120, PTH123
            file.write(str(os.getpid()))
        os.rmdir(made[0])  # noqa: PTH106
with open(RESULT, "w") as file:  # noqa: PTH123
    json.dump(taken, file)
