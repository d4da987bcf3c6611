"""The deployment `reconcile/local`: runs and sweeps of which neither worker nor flow process is left."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_URL, temporary_settings

from blocks.clusters.job import JobState
from deployments.processes import noted
from deployments.stack import DEMO, PROJECT
from tasks.flow_runs import mark_crashed, silent_flow_runs
from tasks.runs.launch import read_run
from tasks.sweeps.records import read_sweep
from tests.conftest import Running
from tests.flows.test_crashes import jobs_of, until

VOLUME = "orphans"
CONFIG = """
max_steps = 50
[model]
name = "slipway/tiny-lm"
[data]
name = "datasets/harbour"
batch_size = 2
seq_len = 16
[ckpt]
interval = 10
[pace]
step_seconds = 0.5
"""
SWEEP = """
name = "left"
config = "finetune.toml"
set = { max_steps = 15, "pace.step_seconds" = 0.5 }
[axes]
"optim.lr" = { choices = [0.001, 0.004, 0.01] }
[limits]
trials = 3
parallel = 2
"""


def furnish(running: Running, folder: Path) -> None:
    """A folder whose command line uses the cluster and the Hub of the stack."""
    hub = noted(running.stack.state, "hub")
    assert hub is not None
    root = running.stack.state / "local"
    (folder / "slipway.toml").write_text(
        f'[clusters.local]\nroot = "{root}"\n[hubs.public]\nendpoint = "{hub["url"]}"\n'
        '[trainers.tiny]\nkind = "tiny"\nresources = { cpus = 0.2 }\n'
    )
    (folder / "finetune.toml").write_text(CONFIG)
    (folder / "sweep.toml").write_text(SWEEP)


def check_that_the_dead_flow_runs_are_found_and_ended(running: Running) -> None:
    """Prefect shows both as running; nobody has told it otherwise."""
    with temporary_settings({PREFECT_API_URL: running.url}), get_client(sync_client=True) as client:
        ours = ["finetune", "sweep"]

        def dead() -> list[FlowRun]:
            silent = silent_flow_runs(client, timedelta(0), ours)  # other tests leave some behind, too
            return [run for run in silent if run.name in ("finetune orphan", "sweep left")]

        until(lambda: len(dead()) == 2, "the first heartbeats to be on record")
        assert silent_flow_runs(client, timedelta(hours=1), ours) == []
        for run in dead():
            mark_crashed(client, run, timedelta(minutes=10))
            state = running.state(str(run.id))
            assert (state["type"], "no heartbeat for 10 minutes" in state["message"]) == ("CRASHED", True)


@pytest.mark.long
def test_what_lost_its_flow_is_followed_to_its_end_and_nothing_runs_twice(running: Running, tmp_path: Path) -> None:
    furnish(running, tmp_path)
    env = {**os.environ, **running.env, "PYTHONPATH": str(PROJECT)}
    dataset = ("--dataset", f"harbour={DEMO / 'harbour'}", "--volume", VOLUME)

    def start(*words: str) -> "subprocess.Popen[bytes]":
        with (tmp_path / f"{words[0]}.log").open("w") as log:
            argv = [sys.executable, "-m", "flows.cli.app", *words, *dataset]
            return subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=log, stderr=log)

    training = start("train", "finetune.toml", "--name", "orphan")
    sweeping = start("sweep", "sweep.toml")
    # Each is killed as soon as it has come far enough, whatever the other does: what trains does not wait.
    records = running.cluster.volumes.path(VOLUME) / ".slipway/runs"
    moments = {
        training: lambda: (records / "orphan/followed.json").exists() and jobs_of(running.cluster, "orphan"),
        sweeping: lambda: jobs_of(running.cluster, "left-t001"),
    }

    def kill_the_ripe() -> bool:
        for process in [process for process, ripe in moments.items() if ripe()]:
            process.kill()
            process.wait()
            del moments[process]
        return not moments

    until(kill_the_ripe, "both to train")
    assert read_run(running.cluster, VOLUME, "orphan").followed_at is not None

    check_that_the_dead_flow_runs_are_found_and_ended(running)
    taken_up = running.run("reconcile/local", volume=VOLUME, idle_minutes=0)
    running.completed(taken_up)

    running.logged(taken_up, "run orphan was followed by nobody")
    (attempt,) = read_run(running.cluster, VOLUME, "orphan").attempts
    assert attempt.end is not None and attempt.end.state == "completed"
    assert jobs_of(running.cluster, "orphan") == [JobState.COMPLETED]
    record, state = read_sweep(running.cluster, VOLUME, "left")
    assert state.over is not None and len(state.ranked(1)) == 3
    assert [len(jobs_of(running.cluster, run)) for run in state.nodes] == [1, 1, 1]
    asked = {"artifacts": {"key": {"any_": ["orphan-training", f"{record.sweep}-report"]}}}
    shown = running.api("POST", "/artifacts/latest/filter", asked)
    assert isinstance(shown, list) and len(shown) == 2
