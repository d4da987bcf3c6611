"""Real writers, killed at random moments of first and second saves: what is called complete is of one save, whole."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.pod.checkpoints.find import find
from tasks.pod.checkpoints.judge import judge
from tests.tasks.pod.checkpoints.synthetic import KINDS

WRITER = """
import sys, time
from pathlib import Path
from tests.tasks.pod.checkpoints.synthetic import KINDS
kind, root = KINDS[sys.argv[1]], Path(sys.argv[2])
step = root / kind.directory
saves = [kind.files(fill) for fill in (1, 2)]
print("ready", flush=True)
for n in range(1000):
    step.mkdir(parents=True, exist_ok=True)
    (step / "complete.json").unlink(missing_ok=True)
    for name, content in saves[n % 2]:
        (step / name).parent.mkdir(parents=True, exist_ok=True)
        with (step / name).open("wb") as file:
            for at in range(0, len(content), 512):
                file.write(content[at : at + 512])
                file.flush()
    if kind.last:
        (root / kind.last[0]).write_bytes(kind.last[1])
    time.sleep(0.01)
"""

NAMES = (
    "torch-dcp",
    "prime-sft",
    "hf-sharded",
    "hf-fsdp",
    "accelerate",
    "megatron-bridge",
    "deepspeed",
    "lightning-fsdp",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_writer_leaves_no_false_complete(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    saves = [dict(kind.files(fill)) for fill in (1, 2)]
    chance = random.Random(name)
    seen = set()
    for kill in range(8):
        root = tmp_path / str(kill)
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, name, str(root)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": "."},
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        step = root / kind.directory
        while not step.is_dir():
            time.sleep(0.0005)
        end = time.monotonic() + chance.random() * (0.01 if kill % 2 else 0.1)
        while time.monotonic() < end:
            find(root)  # looks while it writes, and must not stumble
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        found = judge(step)
        there = {p.relative_to(step).as_posix(): p.read_bytes() for p in step.rglob("*") if p.is_file()}
        assert not found.complete or there in saves, found
        seen.add(found.verdict)
    assert seen
