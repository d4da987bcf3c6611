"""Weights that runs of a node share, on a real kubelet: leases that live as long as their pods."""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from blocks.clusters.job import JobState
from blocks.hub_access import HubAccess
from tasks.runs.launch import read_run, stop
from tasks.runs.request import RunRequest, WeightsRequest
from tests.cluster.access import TestCluster
from tests.kubernetes.conftest import on_this_machine
from tests.kubernetes.waiting import wait_until
from tests.tasks.conftest import Desk

pytestmark = pytest.mark.cluster


@pytest.fixture
def cache(kubernetes: TestCluster) -> Iterator[Path]:
    """A directory of the node that belongs to the volumes' user."""
    if not kubernetes.ours:
        pytest.skip("the nodes of a cluster that was named are not ours to write to")
    path = Path(kubernetes.kubeconfig).parent.parent / "kubelet" / f"test-cache-{time.time_ns()}"
    path.mkdir(parents=True)
    os.chown(path, 1000, 1000)
    yield path


@pytest.fixture
def desk(kubernetes: TestCluster, owner: str, cache: Path, hub_url: str, demo_assets: Path) -> Desk:
    patch = on_this_machine(demo_assets)
    cluster = kubernetes.connect(owner, pod_patch=patch, poll_seconds=0.5, node_cache=str(cache), node_cache_size="1Gi")
    return Desk(cluster, HubAccess(endpoint=hub_url), demo_assets, volume="research")


def holders(cache: Path) -> list[str]:
    """Who has a lease that is locked, as the node sees it: pods see the directory at /node-cache."""
    found = []
    for lease in cache.glob("leases/*/*.json"):
        with contextlib.suppress(FileNotFoundError):  # it has just been given back
            alive = cache / Path(json.loads(lease.read_text())["alive"]).relative_to("/node-cache")
            with alive.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    found.append(lease.stem)
    return found


def from_the_node(request: RunRequest) -> RunRequest:
    return request.model_copy(update={"weights": WeightsRequest(placement="node")})


def test_runs_of_a_node_share_a_copy_that_is_in_use_for_as_long_as_their_pods_live(desk: Desk, cache: Path) -> None:
    first = desk.train(from_the_node(desk.request("first", max_steps=4)))
    assert first.end and first.end.state == "completed", first.end
    long = from_the_node(desk.request("second", pace__step_seconds=5.0))
    launched = desk.launch(long)
    until = time.monotonic() + 300
    while desk.cluster.jobs.status([launched.job])[launched.job].state is not JobState.RUNNING:
        assert time.monotonic() < until
        time.sleep(0.5)
    wait_until(lambda: holders(cache) == ["second.1"])
    end = stop(desk.cluster, desk.volume, "second", reason="the test is over")
    assert end and end.state == "stopped"
    wait_until(lambda: holders(cache) == [])
    reports = [read_run(desk.cluster, desk.volume, run).attempts[0].weights for run in ("first", "second")]
    assert [report and (report.read_from, report.cached) for report in reports] == [("node", False), ("node", True)]
