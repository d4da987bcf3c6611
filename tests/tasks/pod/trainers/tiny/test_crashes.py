"""What a killed, a terminated and a crowded-out trainer leave behind."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def marked(output: Path) -> list[Path]:
    """Step directories with a marker, oldest first, each checked against it."""
    found = []
    for marker in output.glob("checkpoints/step_*/complete.json"):
        written = json.loads(marker.read_text())
        others = {path.name for path in marker.parent.iterdir()} - {marker.name}
        assert others == set(written["files"]), marker
        for name, told in written["files"].items():
            content = (marker.parent / name).read_bytes()
            assert (len(content), hashlib.sha256(content).hexdigest()) == (told["size"], told["sha256"]), marker
        assert marker.parent.name == f"step_{written['step']}"
        found.append(marker.parent)
    return sorted(found, key=lambda path: int(path.name[5:]))


def wait_for_line(process, metrics: Path, lines: int) -> None:
    while process.poll() is None:
        if metrics.is_file() and metrics.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.002)


@pytest.mark.parametrize("ckpt", [{"interval": 1}, {"interval": 1, "keep_last": 2}], ids=["all kept", "two kept"])
def test_no_kill_leaves_a_marker_over_torn_files_and_resuming_loses_nothing(bench, ckpt):
    source = random.Random(5)
    given = {"model__name": bench.model, "max_steps": 30, "ckpt": ckpt}
    expected = bench.losses(bench.train("whole", **given))
    output = bench.place / "killed"
    kills = 0
    while True:
        newest = marked(output)[-1:]
        for torn in [path for path in output.glob("checkpoints/*") if not (path / "complete.json").is_file()]:
            torn.rename(output / f"torn-{kills}-{torn.name}")  # as prepare does
        resume = {"resume__dir": newest[0]} if newest else {}
        # It pauses between a save and the next step, so that it does not come to its end before it is killed.
        process = bench.start(bench.config("killed", **given, **resume, pace__step_seconds=0.15))
        start = int(newest[0].name[5:]) if newest else 0
        if start < 25:
            wait_for_line(process, output / "metrics.jsonl", start + source.randint(1, 5))
            time.sleep(source.random() * 0.04)
            process.kill()
            kills += 1
        _, errors = process.communicate()
        assert errors == ""
        if process.returncode == 0:
            break
    assert kills > 2
    assert marked(output)[-1].name == "step_30"
    assert bench.losses(output) == expected


def test_termination_ends_it_at_once_with_143_and_whole_markers(bench):
    process = bench.start(bench.config("run", ckpt__interval=1, pace__step_seconds=0.05, max_steps=10_000))
    wait_for_line(process, bench.place / "run/metrics.jsonl", 3)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=200)
    assert (process.returncode, errors) == (143, "")
    assert marked(bench.place / "run")


def test_termination_in_a_long_pause_does_not_wait_for_it(bench):
    process = bench.start(bench.config("run", pace__step_seconds=3600))
    assert process.stdout.readline().startswith("trains ")
    process.terminate()
    process.communicate(timeout=200)
    assert process.returncode == 143


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_told_in_one_line_and_leaves_no_marker(bench):
    torn = bench.place / "run/checkpoints/step_20"
    source = bench.train("source", max_steps=10)
    torn.mkdir(parents=True)
    (torn / "optimizer.safetensors").symlink_to("/dev/full")
    (torn / "complete.json").write_text("{}")
    line = bench.refused("run", resume__dir=source / "checkpoints/step_10")
    assert "The volume is full while saving step 20." in line and "Grow it" in line
    assert sorted(path.name for path in torn.iterdir()) == ["model.safetensors", "optimizer.safetensors"]


def test_a_really_full_disk(bench, tmp_path):
    small = tmp_path / "small-disk"
    small.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root on Linux")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    try:
        assert "The volume is full while saving step 30." in bench.refused(small / "run")
        assert [path.name for path in marked(small / "run")] == ["step_10", "step_20"]
        assert (small / "run/checkpoints/step_30").is_dir()
    finally:
        subprocess.run(["umount", str(small)], check=True)
