"""Runs one command and writes what it took as JSON: `python child.py RESULT ARGV…`.

A process of its own, and a small one: what the kernel says of a command's peak memory starts at that of whoever started
it.
"""

import json
import os
import sys
import time

RESULT, *ARGV = sys.argv[1:]

begun = time.monotonic()
pid = os.posix_spawn(ARGV[0], ARGV, os.environ)
_, status, usage = os.wait4(pid, 0)
taken = {
    "code": os.waitstatus_to_exitcode(status),
    "wall": time.monotonic() - begun,
    "cpu": usage.ru_utime + usage.ru_stime,
    "peak": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
}
with open(RESULT, "w") as file:  # noqa: PTH123 - pathlib would double the time to start
    json.dump(taken, file)
