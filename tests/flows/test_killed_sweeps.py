"""Sweeps as real flow runs, started by `prefect deployment run`; the flow's process is killed twice during each.

Slow, and left out by default: `python -m pytest -m slow tests/flows/test_killed_sweeps.py`.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tasks.runs.job import RUN_LABEL, VOLUME_LABEL
from tasks.runs.launch import read_run
from tasks.sweeps.log import State
from tasks.sweeps.records import read_sweep
from tests.conftest import Running
from tests.flows.test_crashes import kill_flow, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

VOLUME = "killed"
LR = {"optim.lr": {"log_range": [0.001, 0.05]}}
GRID = {"optim.lr": {"choices": [0.001, 0.004, 0.01]}, "data.batch_size": {"choices": [1, 2, 3, 4]}}
SWEEPS: dict[str, dict[str, Any]] = {
    "grid": {"axes": GRID, "limits": {"parallel": 3}},
    "halving": {"axes": LR, "limits": {"parallel": 4}, "halving": {"min_steps": 2, "factor": 3, "rungs": 3}},
    "pbt": {"axes": LR, "limits": {"parallel": 8}, "pbt": {"population": 8, "interval": 5, "intervals": 4}},
}
STEPS = {
    "grid": {"max_steps": 4, "ckpt.interval": 4, "pace.step_seconds": 0.1},
    "halving": {"ckpt.interval": 18, "pace.step_seconds": 0.1},
    "pbt": {"ckpt.interval": 5, "pace.step_seconds": 0.5},
}
MOMENTS: dict[str, tuple[Callable[[State], bool], ...]] = {
    "grid": (lambda s: _over(s) >= 1, lambda s: _over(s) >= 5),
    "halving": (lambda s: _over(s) >= 3, lambda s: any(node.start.stage for node in s.nodes.values())),
    "pbt": (lambda s: len(s.live) >= 8, lambda s: 1 in s.intervals),
}


def _over(state: State) -> int:
    return len(state.nodes) - len(state.live)


@pytest.mark.parametrize("method", SWEEPS)
def test_a_sweep_whose_flow_is_killed_twice_loses_nothing_and_launches_nothing_twice(
    running: Running, method: str
) -> None:
    sweep = f"killed-{method}"
    asked = {
        "name": sweep,
        "volume": VOLUME,
        "set": STEPS[method],
        "search": {"method": method, "metric": "val_loss", **SWEEPS[method]},
        "trainer": {"kind": "tiny", "resources": {"cpus": 0.2}},
    }

    def state() -> State:
        return read_sweep(running.cluster, VOLUME, sweep)[1]

    def begun() -> bool:
        volumes = {volume.name for volume in running.cluster.volumes.list()}
        sweeps = running.cluster.call(VOLUME, "sweeps.list", {})["sweeps"] if VOLUME in volumes else []
        return sweep in {shown["sweep"] for shown in sweeps}

    for moment in MOMENTS[method]:
        flow_run = running.run_from_shell("sweep/local", **asked)
        before = state().turns if begun() else 0

        def ripe(moment: Callable[[State], bool] = moment, before: int = before) -> bool:
            return begun() and state().turns > before and moment(state())

        until(ripe, "the moment to kill its flow")
        kill_flow(flow_run)
        assert state().over is None, "it was over before it could be killed"
        running.wait(flow_run, "CRASHED", "FAILED")
    running.completed(running.run_from_shell("sweep/local", **asked), 600)

    end = state()
    assert end.over is not None and not end.live
    assert end.trials == {"grid": 12, "halving": 27, "pbt": 8}[method]
    jobs = [j for j in running.cluster.jobs.find({VOLUME_LABEL: VOLUME}) if j.labels.get(RUN_LABEL, "") in end.nodes]
    assert Counter(job.labels[RUN_LABEL] for job in jobs) == dict.fromkeys(end.nodes, 1), "none twice, none forgotten"
    assert not any(job.live for job in jobs)
    for run, node in end.nodes.items():
        record = read_run(running.cluster, VOLUME, run)
        (attempt,) = record.attempts
        assert attempt.end is not None and (attempt.end.state == "completed" or node.replaced_by), run
        origin, source = node.start.origin, record.plan.resolved.source
        assert (origin is None) == (source is None)
        if origin is not None and source is not None:
            assert (source.run, source.step, attempt.resume.step) == (origin.run, origin.step, origin.step)
            parent = end.nodes[origin.run].end
            assert parent is not None and parent.newest is not None and parent.newest.step >= origin.step
    if method == "halving":
        rungs = Counter(node.start.stage for node in end.nodes.values())
        assert rungs[0] == 27 and rungs[1] >= 9 and rungs[2] >= 3
    if method == "pbt":
        assert sorted(end.intervals) == [1, 2, 3]
