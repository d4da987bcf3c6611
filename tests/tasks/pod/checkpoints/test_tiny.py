"""The tiny trainer's checkpoints: complete only by its marker, its sizes and its times."""

import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tasks.pod.checkpoints.find import find
from tasks.pod.checkpoints.judge import judge
from tasks.pod.checkpoints.verdict import Verdict
from tests.tasks.pod.checkpoints.writers import tiny_files, write_tiny


def test_a_whole_step_is_complete_and_resumable(tmp_path: Path) -> None:
    for deep in (False, True):
        found = judge(write_tiny(tmp_path / "step_10", 10), deep=deep)
        assert (found.verdict, found.step, found.format, found.resumable) == (Verdict.COMPLETE, 10, "tiny", True)


@pytest.mark.parametrize("name", tiny_files(10))
def test_no_truncation_of_any_file_is_complete(tmp_path: Path, name: str) -> None:
    step = write_tiny(tmp_path / "step_10", 10)
    whole = (step / name).read_bytes()
    times = (step / name).stat().st_mtime_ns
    for length in range(len(whole)):
        (step / name).write_bytes(whole[:length])
        os.utime(step / name, ns=(times, times))
        found = judge(step)
        assert found.verdict is Verdict.INCOMPLETE, (length, found.why)


@pytest.mark.parametrize("name", tiny_files(10))
def test_no_missing_file_is_complete(tmp_path: Path, name: str) -> None:
    step = write_tiny(tmp_path / "step_10", 10)
    (step / name).unlink()
    found = judge(step)
    assert found.verdict is Verdict.INCOMPLETE
    assert f"{name} is" in found.why


def test_it_says_how_much_is_missing(tmp_path: Path) -> None:
    step = write_tiny(tmp_path / "step_10", 10)
    whole = (step / "optimizer.safetensors").read_bytes()
    (step / "optimizer.safetensors").write_bytes(whole[:-100])
    assert judge(step).why == "optimizer.safetensors ends 100 bytes early"


def test_no_moment_of_a_second_save_is_complete_but_its_end(tmp_path: Path) -> None:
    for stop in range(len(tiny_files(10))):
        step = write_tiny(tmp_path / str(stop) / "step_10", 10)
        time.sleep(0.05)
        (step / "complete.json").unlink()
        for name, content in list(tiny_files(10).items())[:stop]:
            (step / name).write_bytes(content)
        assert judge(step).verdict is not Verdict.COMPLETE


def test_a_marker_that_is_older_than_a_file_settles_nothing(tmp_path: Path) -> None:
    step = write_tiny(tmp_path / "step_10", 10)
    time.sleep(0.05)
    (step / "model.safetensors").write_bytes(tiny_files(11)["model.safetensors"])
    found = judge(step)
    assert found.verdict is Verdict.UNKNOWN
    assert "complete.json is older than model.safetensors" in found.why
    assert found.resumable


def test_a_step_under_another_number_is_unknown(tmp_path: Path) -> None:
    write_tiny(tmp_path / "step_10", 10).rename(tmp_path / "step_20")
    assert judge(tmp_path / "step_20").verdict is Verdict.UNKNOWN


def test_deep_finds_a_flipped_bit(tmp_path: Path) -> None:
    step = write_tiny(tmp_path / "step_10", 10)
    times = (step / "model.safetensors").stat().st_mtime_ns
    content = bytearray((step / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (step / "model.safetensors").write_bytes(content)
    os.utime(step / "model.safetensors", ns=(times, times))
    assert judge(step).verdict is Verdict.COMPLETE
    found = judge(step, deep=True)
    assert (found.verdict, "sha256" in found.why) == (Verdict.INCOMPLETE, True)


WRITER = """
import sys, time
from pathlib import Path
from tests.tasks.pod.checkpoints.writers import tiny_files
root, n = Path(sys.argv[1]), 0
while True:
    n += 1
    step = root / f"step_{n % 5 + 1}"
    step.mkdir(parents=True, exist_ok=True)
    (step / "complete.json").unlink(missing_ok=True)
    for name, content in tiny_files(n % 5 + 1).items():
        with (step / name).open("wb") as file:
            for at in range(0, len(content), 64):
                file.write(content[at : at + 64])
                file.flush()
"""


def test_a_killed_writer_leaves_no_false_complete(tmp_path: Path) -> None:
    chance = random.Random(7)
    for kill in range(25):
        root = tmp_path / str(kill)
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(root)], env={**os.environ, "PYTHONPATH": "."})
        while not (root / "step_5").is_dir() and writer.poll() is None:
            time.sleep(0.002)
        time.sleep(chance.random() * 0.02)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        for found in find(root).checkpoints:
            assert found.step is not None
            whole = all(
                (root / found.path / n).read_bytes() == b
                for n, b in tiny_files(found.step).items()
                if (root / found.path / n).exists()
            )
            there = all((root / found.path / n).exists() for n in tiny_files(found.step))
            assert not found.complete or (whole and there), found


def test_looking_while_it_writes_never_sees_a_false_complete(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], env={**os.environ, "PYTHONPATH": "."})
    try:
        while not (tmp_path / "step_5").is_dir():
            time.sleep(0.002)
        end = time.monotonic() + 1
        reports = []
        while time.monotonic() < end:
            reports.append(find(tmp_path))
        for before, after in pairwise(c for report in reports for c in report.checkpoints if c.complete):
            assert before.bytes == sum(map(len, tiny_files(before.step or 0).values()))
            assert after.format == "tiny"
    finally:
        writer.kill()
        writer.wait()
