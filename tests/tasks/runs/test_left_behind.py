"""A job that outlives its records, which were removed by hand, is known by its labels: nothing begins beside it."""

import shutil
import time
from pathlib import Path

import pytest

from blocks.clusters.errors import ConflictError, NotFoundError
from blocks.clusters.local.cluster import LocalCluster
from tasks.plans.plan import PlanError
from tasks.runs.claim import claim
from tasks.runs.job import RUN_LABEL
from tasks.runs.launch import Launch, launch, stop
from tasks.sweeps.plan import make_sweep_plan
from tests.tasks.conftest import Desk
from tests.tasks.sweeps.conftest import SweepDesk, search

SLOW = {"pace__step_seconds": 3600}


def begun(launched: Launch, volume: Path) -> str:
    """Wait until a run trains; its job."""
    deadline = time.monotonic() + 300
    while not (volume / "runs" / launched.plan.run / "metrics.jsonl").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return launched.job


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    return tmp_path / "cluster" / "volumes" / "me" / "v"


@pytest.mark.parametrize("removed", [".slipway/runs", "", "everything"])
def test_a_run_whose_records_were_removed_is_not_launched_beside_its_job(
    desk: Desk, cluster: LocalCluster, volume: Path, tmp_path: Path, removed: str
) -> None:
    job = begun(desk.launch(desk.request("r", **SLOW)), volume)
    if removed == "everything":
        shutil.move(volume, tmp_path / "away")  # it was staged read-only
    elif removed:
        shutil.rmtree(volume / removed)
    else:
        for path in list(volume.iterdir()):
            path.rename(tmp_path / path.name)

    with pytest.raises(PlanError, match=rf"{job} of a run 'r' is live on volume v.*slipway runs stop r --volume v"):
        desk.launch(desk.request("r", **SLOW))
    assert [status.name for status in cluster.jobs.find({RUN_LABEL: "r"})] == [job]
    desk.launch(desk.request("another", **SLOW))

    end = stop(cluster, "v", "r", reason="stopped by hand")
    assert end is not None and (end.state, end.reason) == ("stopped", "its job was live, and on record no more")
    assert desk.launch(desk.request("r", **SLOW)).job != job
    for name in ("r", "another"):
        stop(cluster, "v", name, reason="over")


def test_one_that_was_planned_before_is_refused_at_its_launch(desk: Desk, cluster: LocalCluster, volume: Path) -> None:
    request = desk.request("r", **SLOW)
    plan = desk.plan(request)
    weights, dataset = desk.have(plan)
    job = begun(launch(cluster, claim(cluster, plan, weights, dataset)), volume)
    shutil.rmtree(volume / ".slipway" / "runs")
    anew = claim(cluster, plan, weights, dataset)

    with pytest.raises(ConflictError, match=job):
        launch(cluster, anew)

    assert stop(cluster, "v", "r", reason="over") is not None
    assert stop(cluster, "v", "r", reason="over") is None
    again = launch(cluster, anew).job
    assert again != job
    stop(cluster, "v", "r", reason="over")


def test_of_a_run_of_which_nothing_is_there_nothing_is_stopped(desk: Desk, cluster: LocalCluster) -> None:
    desk.have(desk.plan(desk.request("r")))
    with pytest.raises(NotFoundError, match="no run 'r'"):
        stop(cluster, "v", "r", reason="over")


def test_a_sweep_whose_trials_live_without_records_is_not_begun_beside_them(
    desk: Desk, cluster: LocalCluster, volume: Path
) -> None:
    sweeps = SweepDesk(desk)
    begun(desk.launch(desk.request("s-t007", **SLOW)), volume)
    shutil.rmtree(volume / ".slipway" / "runs")

    (blocked,) = make_sweep_plan(cluster, desk.hub, sweeps.request("s", search(limits={"trials": 2}))).blocked
    assert blocked.subject == "sweep s" and "s-t007" in blocked.detail
    assert not make_sweep_plan(cluster, desk.hub, sweeps.request("s2", search(limits={"trials": 2}))).blocked
    stop(cluster, "v", "s-t007", reason="over")
    assert not make_sweep_plan(cluster, desk.hub, sweeps.request("s", search(limits={"trials": 2}))).blocked
