"""What becomes of a fork whose source changes while it waits, and of forks of forks: the right losses, or an error."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from blocks.clusters.job import JobState
from blocks.clusters.local.cluster import LocalCluster
from tasks.runs.follow import follow
from tasks.runs.launch import read_run, stop
from tests.tasks.conftest import Desk
from tests.tasks.pod.retained import root_of


def losses(root: Path, run: str) -> dict[int, str]:
    """As they were written, by step."""
    lines = (root / f"runs/{run}/metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line, parse_float=str) for line in lines]
    assert len({row["step"] for row in rows}) == len(rows)
    return {row["step"]: row["loss"] for row in rows}


@pytest.fixture
def one_cpu(tmp_path: Path) -> LocalCluster:
    return LocalCluster(tmp_path / "cluster", cpus=1, poll_seconds=0.1)


def test_forks_that_queue_while_their_source_changes_train_correctly_or_stop_with_the_right_error(
    desk: Desk, one_cpu: LocalCluster
) -> None:
    desk.cluster = one_cpu
    desk.train(desk.request("parent", max_steps=20))
    root = root_of(one_cpu, desk.volume)
    whole, home = losses(root, "parent"), root / "runs/parent/checkpoints"
    desk.launch(desk.request("busy", pace__step_seconds=30))
    ways = {"deleted": (4, "link"), "saved-anew": (8, "link"), "saved-over": (12, "link"), "copied": (16, "copy")}
    forks = [desk.launch(desk.fork("parent", run, step, hold)) for run, (step, hold) in ways.items()]
    states = one_cpu.jobs.status([fork.job for fork in forks])
    assert {state.state for state in states.values()} == {JobState.QUEUED}

    shutil.rmtree(home / "step_4")
    shutil.rmtree(home / "step_8")
    shutil.copytree(home / "step_20", home / "step_8")
    for step in (12, 16):  # in place, as a trainer that saves the step again does: through the links
        for file in (home / "step_20").iterdir():
            (home / f"step_{step}" / file.name).write_bytes(file.read_bytes())
    stop(one_cpu, desk.volume, "busy", reason="the others may run")
    done = {p.launch.plan.run: p for p in follow(one_cpu, forks, lambda progress: None)}

    for run in ("deleted", "saved-anew", "copied"):
        end, start = done[run].end, ways[run][0]
        assert end is not None and end.state == "completed", end
        assert losses(root, run) == {step: loss for step, loss in whole.items() if step > start}
    end = done["saved-over"].end
    assert end is not None and end.state == "failed"
    told = f"{end.reason} {' '.join(end.last_lines)}"
    assert "holds/saved-over/step_12 is no longer the checkpoint that was chosen" in told
    assert not (root / "runs/saved-over/metrics.jsonl").exists()


def test_a_fork_of_a_fork_of_a_fork_is_the_uninterrupted_run_bit_for_bit(desk: Desk) -> None:
    desk.train(desk.request("whole", max_steps=16))
    desk.train(desk.request("first", max_steps=4))
    line = ["first", "second", "third", "fourth"]
    for place, (parent, child) in enumerate(pairwise(line), start=2):
        desk.train(desk.fork(parent, child, max_steps=4 * place))
    root = root_of(desk.cluster, desk.volume)
    parts = [losses(root, run) for run in line]
    assert [sorted(part) for part in parts] == [list(range(4 * n + 1, 4 * n + 5)) for n in range(4)]
    assert {step: loss for part in parts for step, loss in part.items()} == losses(root, "whole")
    for name in ("model.safetensors", "optimizer.safetensors", "state.json"):
        last, there = (root / f"runs/{run}/checkpoints/step_16/{name}" for run in ("whole", "fourth"))
        assert last.read_bytes() == there.read_bytes()
    sources = [read_run(desk.cluster, desk.volume, run).plan.resolved.source for run in line]
    assert [(s.run, s.step) if s else None for s in sources] == [None, ("first", 4), ("second", 8), ("third", 12)]
