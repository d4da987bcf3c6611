"""What is killed is taken up again: nothing runs twice, nothing is lost."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from blocks.clusters.job import JobState
from blocks.clusters.local.cluster import LocalCluster
from deployments.stack import PROJECT
from tasks.runs.job import RUN_LABEL
from tasks.runs.launch import checkpoints, read_run
from tests.conftest import PATIENCE_SECONDS, Running

SLOW = {"pace.step_seconds": 0.25, "max_steps": 40, "ckpt.interval": 5}
VOLUME = "crashes"
CONFIG = PROJECT / "deployments" / "demo" / "finetune.toml"


def until(claim: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline, f"not after {seconds} s: {what}"
        time.sleep(0.1)


def flow_process(flow_run: str) -> psutil.Process | None:
    """The process of a flow run: the innermost one that carries its id."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("PREFECT__FLOW_RUN_ID") == flow_run and "supervisor" not in str(process.cmdline()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return max(found, key=lambda p: p.create_time(), default=None)


def kill_flow(flow_run: str) -> None:
    process = flow_process(flow_run)
    assert process is not None
    process.kill()


def jobs_of(cluster: LocalCluster, run: str) -> list[JobState]:
    return [job.state for job in cluster.jobs.find({RUN_LABEL: run})]


def program_of(run: str) -> psutil.Process:
    """The training process of a run, which may have to start first."""
    found: list[psutil.Process] = []

    def starts() -> bool:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                words = " ".join(process.cmdline())
                scratch = process.environ().get("SLIPWAY_SCRATCH", "")
                if "tiny" in words and "config.toml" in words and scratch.count(run):
                    found.append(process)
        return bool(found)

    until(starts, f"the training process of {run}")
    return found[0]


def steps(cluster: LocalCluster, run: str) -> list[int]:
    record = read_run(cluster, VOLUME, run)
    return [c["step"] for c in checkpoints(cluster, record.plan) if c["verdict"] == "complete"]


def has_saved(cluster: LocalCluster, run: str, step: int) -> bool:
    """Looked at where it is: asking the cluster takes long on a busy machine, and the run does not wait."""
    return (cluster.volumes.path(VOLUME) / f"runs/{run}/checkpoints/step_{step}/complete.json").exists()


def test_a_flow_killed_while_training_is_run_again_and_adopts_its_job(running: Running) -> None:
    first = running.run("finetune/local", name="killed", volume=VOLUME, set=SLOW)
    until(lambda: has_saved(running.cluster, "killed", 5), "first checkpoint")

    kill_flow(first)
    running.wait(first, "CRASHED", "FAILED")
    again = running.run("finetune/local", name="killed", volume=VOLUME, set=SLOW)

    running.completed(again)
    assert jobs_of(running.cluster, "killed") == [JobState.COMPLETED]
    record = read_run(running.cluster, VOLUME, "killed")
    assert [a.attempt for a in record.attempts] == [1]


MOMENTS = {
    "the staging job is submitted": "jobs/me/stage-*",
    "the snapshot is staged": "volumes/me/v/.slipway/snapshots/*/*.json",
    "the plan is on record": "volumes/me/v/.slipway/runs/again/plan.json",
    "the attempt is on record": "volumes/me/v/.slipway/runs/again/attempts/1.json",
    "the first checkpoint is complete": "volumes/me/v/runs/again/checkpoints/step_5/complete.json",
}


@pytest.mark.parametrize("pattern", MOMENTS.values(), ids=MOMENTS.keys())
@pytest.mark.long
def test_a_flow_killed_at_any_moment_and_asked_again_loses_nothing_and_doubles_nothing(
    prefect_server: dict[str, str], hub_url: str, tmp_path: Path, pattern: str
) -> None:
    ask = {"name": "again", "volume": "v", "set": {**SLOW, "pace.step_seconds": 0.05}}
    argv = [sys.executable, "-m", "tests.flows.asking", str(tmp_path), hub_url, str(CONFIG), json.dumps(ask)]
    with (tmp_path / "log").open("w") as log:
        options = {"cwd": PROJECT, "env": {**os.environ, **prefect_server}, "stdout": log, "stderr": log}
        first = subprocess.Popen(argv, **options)
        until(lambda: any(tmp_path.glob(pattern)), pattern)
        first.kill()
        first.wait()
        done = subprocess.run(argv, check=False, **options)

    assert done.returncode == 0, (tmp_path / "log").read_text()
    cluster = LocalCluster(tmp_path)
    assert jobs_of(cluster, "again") == [JobState.COMPLETED]
    assert [a.end.state for a in read_run(cluster, "v", "again").attempts if a.end] == ["completed"]
    assert len(cluster.jobs.find({})) == 3  # the model's, the dataset's, the run's: none twice


def test_a_retry_of_the_same_flow_run_is_the_same_run(running: Running) -> None:
    records = running.cluster.volumes.path(VOLUME) / ".slipway/runs"
    others = {path.name for path in records.glob("*")}
    first = running.run("finetune/local", volume=VOLUME, set=SLOW)

    def new() -> list[str]:
        return [path.parts[-3] for path in records.glob("*/attempts/1.json") if path.parts[-3] not in others]

    until(lambda: new() and jobs_of(running.cluster, new()[0]), "its job")
    (run,) = new()

    kill_flow(first)
    # the worker looks at it last, and would report a retry that began before as crashed
    running.logged(first, "Check whether the flow run exceeded its memory allocation")
    running.api("POST", f"/flow_runs/{first}/set_state", {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}})

    running.completed(first)
    assert jobs_of(running.cluster, run) == [JobState.COMPLETED]


def test_a_killed_trainer_is_reported_and_asking_again_continues_from_its_newest_complete_step(
    running: Running,
) -> None:
    ask = {"name": "shot", "volume": VOLUME, "set": SLOW}
    first = running.run("finetune/local", **ask)
    until(lambda: has_saved(running.cluster, "shot", 10), "two checkpoints")

    program_of("shot").kill()
    state = running.wait(first, "FAILED", "CRASHED", "COMPLETED")

    assert state["type"] == "FAILED"
    assert "SIGKILL" in state["message"] and "step" in state["message"], state
    newest = max(steps(running.cluster, "shot"))
    again = running.run("finetune/local", **ask)
    running.completed(again)
    record = read_run(running.cluster, VOLUME, "shot")
    assert [(a.attempt, a.resume.kind, a.end.state) for a in record.attempts if a.end] == [
        (1, "base", "failed"),
        (2, "own", "completed"),
    ]
    assert record.attempts[1].resume.step == newest
    assert max(steps(running.cluster, "shot")) == 40


def test_cancelling_a_flow_stops_its_job_and_says_so_on_record(running: Running) -> None:
    flow_run = running.run("finetune/local", name="cancelled", volume=VOLUME, set={**SLOW, "max_steps": 4000})
    until(lambda: jobs_of(running.cluster, "cancelled") == [JobState.RUNNING], "the job to run")

    running.api("POST", f"/flow_runs/{flow_run}/set_state", {"state": {"type": "CANCELLING"}})
    running.wait(flow_run, "CANCELLED")

    until(lambda: jobs_of(running.cluster, "cancelled") == [JobState.STOPPED], "the job to stop")
    until(lambda: read_run(running.cluster, VOLUME, "cancelled").attempts[0].end, "the end on record")
    end = read_run(running.cluster, VOLUME, "cancelled").attempts[0].end
    assert end is not None and end.state == "stopped" and "cancelled" in end.reason
