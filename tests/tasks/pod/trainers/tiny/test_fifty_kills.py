"""The tiny trainer killed at fifty random moments of saves over earlier saves: nothing torn is called complete."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tasks.pod.checkpoints.find import find
from tests.tasks.pod.trainers.tiny.conftest import Bench

KILLS = 50
WARM = """
import os, signal, sys
from pathlib import Path
from tasks.pod.trainers.tiny.program import THREADS
os.environ.update(dict.fromkeys(THREADS, "1"))
from tasks.pod.trainers.tiny.loop import train
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the killed are reaped at once
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        train(Path(line.strip()))
        os._exit(0)
    print(child, flush=True)
"""


def whole(step: Path) -> bool:
    """By the marker's hashes, read here and now."""
    told = json.loads((step / "complete.json").read_text())
    hashes = {name: hashlib.sha256((step / name).read_bytes()).hexdigest() for name in told["files"]}
    return step.name == f"step_{told['step']}" and hashes == {n: f["sha256"] for n, f in told["files"].items()}


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    try:
        while True:
            os.kill(pid, 0)
            time.sleep(0.001)
    except ProcessLookupError:
        return


def test_fifty_kills_leave_no_false_complete(bench: Bench) -> None:
    chance, torn, complete = random.Random(11), 0, 0
    first = bench.train("run", max_steps=1, ckpt__interval=1)
    home = first / "checkpoints"
    warm = subprocess.Popen([sys.executable, "-c", WARM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert warm.stdin and warm.stdout
    for kill in range(KILLS):
        # another learning rate: other bytes than the saves that these are written over
        changes = {"optim__lr": 0.001 * (kill + 1), "max_steps": 1000, "ckpt__interval": 1}  # it never gets there
        config = bench.config("run", **changes, resume__dir=home / "step_1")
        before = (first / "metrics.jsonl").stat().st_ino
        print(config, file=warm.stdin, flush=True)
        pid = int(warm.stdout.readline())
        while (first / "metrics.jsonl").stat().st_ino == before:  # replaced when training begins
            time.sleep(0.0005)
        time.sleep(chance.random() * 0.12)
        end(pid)
        for found in find(first).checkpoints:
            torn += found.verdict == "incomplete"
            complete += found.complete
            assert not found.complete or whole(first / found.path), (kill, found)
    warm.stdin.close()
    warm.wait()
    assert torn > 5 and complete > KILLS, "the moments were not in the midst of saves"
    assert {c.path for c in find(first).checkpoints if c.complete} == {
        c.path for c in find(first, deep=True).checkpoints if c.complete
    }
