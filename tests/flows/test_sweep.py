"""The deployment `sweep/local`: from a shell, cancelled and asked for again."""

from typing import Any

import pytest

from blocks.clusters.job import JobState
from tasks.runs.job import RUN_LABEL
from tasks.sweeps.log import State
from tasks.sweeps.records import read_sweep
from tasks.sweeps.stop import end_sweep
from tests.conftest import Running
from tests.flows.test_crashes import until

VOLUME = "swept"
SEARCH = {
    "method": "random",
    "axes": {"optim.lr": {"log_range": [0.001, 0.05]}},
    "metric": "val_loss",
    "limits": {"trials": 2, "parallel": 2},
}
SHORT = {"max_steps": 2, "ckpt.interval": 2, "pace.step_seconds": 0}


def state_of(running: Running, sweep: str) -> State:
    return read_sweep(running.cluster, VOLUME, sweep)[1]


def artifacts(running: Running, *keys: str) -> dict[str, Any]:
    asked = {"artifacts": {"key": {"any_": list(keys)}}}
    found = running.api("POST", "/artifacts/latest/filter", asked)
    assert isinstance(found, list)
    return {artifact["key"]: artifact for artifact in found}


def test_a_sweep_from_a_shell_shows_its_leaderboard(running: Running) -> None:
    flow_run = running.run_from_shell("sweep/local", name="shell", volume=VOLUME, set=SHORT, search=SEARCH)
    running.completed(flow_run)

    state = state_of(running, "shell")
    assert state.over is not None and len(state.ranked(1)) == 2
    shown = artifacts(running, "shell-plan", "shell-progress", "shell-board", "shell-leaderboard", "shell-report")
    assert len(shown) == 5
    assert state.ranked(1)[0].start.run in shown["shell-leaderboard"]["data"]
    assert shown["shell-report"]["data"].count("data:image/svg+xml;base64,") == 3
    assert shown["shell-progress"]["data"] == 100


@pytest.mark.long
def test_cancelling_a_sweep_stops_its_trials_and_asking_again_goes_on_with_them(running: Running) -> None:
    slow = {"max_steps": 400, "ckpt.interval": 1, "pace.step_seconds": 2}
    asked = {"name": "cancelled", "volume": VOLUME, "set": slow, "search": SEARCH}
    flow_run = running.run("sweep/local", **asked)

    def jobs() -> list[JobState]:
        return [j.state for n in ("t001", "t002") for j in running.cluster.jobs.find({RUN_LABEL: f"cancelled-{n}"})]

    until(lambda: jobs() == [JobState.RUNNING] * 2, "both trials to run")
    running.api("POST", f"/flow_runs/{flow_run}/set_state", {"state": {"type": "CANCELLING"}})
    running.wait(flow_run, "CANCELLED")
    until(lambda: jobs() == [JobState.STOPPED] * 2, "both trials to be stopped")

    again = running.run("sweep/local", **asked)
    until(lambda: jobs().count(JobState.RUNNING) == 2, "both to go on")
    state = state_of(running, "cancelled")
    assert list(state.nodes) == ["cancelled-t001", "cancelled-t002"] and state.over is None
    assert end_sweep(running.cluster, VOLUME, "cancelled", "the test is over")
    running.wait(again, "COMPLETED", "FAILED")
    assert jobs().count(JobState.STOPPED) == 4, "two attempts of each"
