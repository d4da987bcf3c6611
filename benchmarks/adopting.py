"""Runs one command and says what it and all that came of it took: `python adopting.py RESULT ARGV…` (Linux).

Unlike `child.py` it adopts processes that were left behind (supervisors of the local cluster, servers of Ray) and waits
for them: their CPU counts too.
"""

import ctypes
import json
import os
import resource
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36

RESULT, *ARGV = sys.argv[1:]

ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
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
taken = {
    "code": os.waitstatus_to_exitcode(status),
    "wall": wall,
    "cpu": usage.ru_utime + usage.ru_stime,
    "peak": mine.ru_maxrss * 1024,
}
with open(RESULT, "w") as file:  # noqa: PTH123 - as in child.py
    json.dump(taken, file)
