"""A sweep on a real Kubernetes: trials are Jobs, the best of them are forked."""

import pytest

from tasks.runs.job import RUN_LABEL, VOLUME_LABEL
from tasks.runs.launch import read_run
from tests.tasks.conftest import Desk
from tests.tasks.sweeps.conftest import SweepDesk, search

pytestmark = pytest.mark.cluster


def test_halving_forks_the_better_half_and_no_trial_runs_twice(desk: Desk) -> None:
    how = search(
        "halving",
        limits={"trials": 4, "parallel": 2},
        halving={"min_steps": 2, "factor": 2, "rungs": 2},
    )
    state = SweepDesk(desk).run(SweepDesk(desk).request("k", how, ckpt__interval=4))

    assert state.over is not None and state.trials == 4 and state.failed == 0, state
    forks = [node.start for node in state.nodes.values() if node.start.origin]
    assert len(forks) >= 2
    for fork in forks:
        source = read_run(desk.cluster, desk.volume, fork.run).plan.resolved.source
        assert source is not None and fork.origin is not None
        assert (source.run, source.step) == (fork.origin.run, 2)
    jobs = [
        job.labels[RUN_LABEL] for job in desk.cluster.jobs.find({VOLUME_LABEL: desk.volume}) if RUN_LABEL in job.labels
    ]
    assert sorted(jobs) == sorted(state.nodes)
