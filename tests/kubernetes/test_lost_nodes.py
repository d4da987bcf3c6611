"""A node that goes away under a run: the run is lost, and its next attempt goes on from its own checkpoint."""

import threading
import time
from typing import Any

import pytest

from blocks.clusters.job import Cause, JobStatus
from blocks.clusters.kubernetes.cluster import KubernetesCluster
from blocks.hub_access import HubAccess
from tasks.runs.launch import Launch
from tasks.runs.records import End
from tasks.runs.request import RunRequest
from tests.cluster.access import NODES, TestCluster, a_second_node, kubelet_away, node_away
from tests.kubernetes.conftest import on_this_machine
from tests.kubernetes.test_main_job import until_checkpoint
from tests.tasks.conftest import Desk

pytestmark = [pytest.mark.cluster, pytest.mark.alone]


@pytest.fixture
def desk(kubernetes: TestCluster, owner: str, hub_url: str, demo_assets: Any) -> Desk:
    """With pods that leave a node at once that does not answer, and are not waited for for long."""
    if not kubernetes.ours:
        pytest.skip("the nodes of a cluster that was named are not ours to stop")
    leave = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
    tolerations = tuple({"key": f"node.kubernetes.io/{key}", **leave} for key in ("unreachable", "not-ready"))
    patch = on_this_machine(demo_assets)
    cluster = kubernetes.connect(
        owner, pod_patch=patch, poll_seconds=0.5, tolerations=tolerations, gone_grace_seconds=5
    )
    return Desk(cluster, HubAccess(endpoint=hub_url), demo_assets, volume="research")


def begun(desk: Desk) -> tuple[RunRequest, Launch]:
    """A run that has a complete checkpoint and eight steps to go."""
    request = desk.request("one", pace__step_seconds=5.0)
    launched = desk.launch(request)
    until_checkpoint(desk, launched.plan)
    return request, launched


def cluster_of(desk: Desk) -> KubernetesCluster:
    assert isinstance(desk.cluster, KubernetesCluster)
    return desk.cluster


def pods_of_one(desk: Desk) -> Any:
    cluster = cluster_of(desk)
    return cluster.api.items(f"/api/v1/namespaces/{cluster.owner}/pods", {"labelSelector": "slipway.dev/run=one"})


def ended(desk: Desk, launched: Launch) -> JobStatus:
    until = time.monotonic() + 400
    while (status := desk.cluster.jobs.status([launched.job])[launched.job]).live:
        assert time.monotonic() < until, status
        time.sleep(1)
    return status


def goes_on(desk: Desk, request: RunRequest) -> None:
    for _ in range(4):  # the end of the first is written down by whoever looks first; a node may go on being tainted
        again = desk.train(request)
        if not (again.end and again.end.infrastructure):
            break
    assert again.end and again.end.state == "completed", again.end
    assert (again.launch.attempt.attempt > 1, again.launch.attempt.resume.kind) == (True, "own")
    assert again.launch.attempt.resume.step >= 4


def test_a_node_that_does_not_answer(desk: Desk, kubernetes: TestCluster) -> None:
    request, launched = begun(desk)
    ends: list[End | None] = []
    following = threading.Thread(target=lambda: ends.append(desk.train(request).end))
    (pod,) = pods_of_one(desk)
    with a_second_node(kubernetes), kubelet_away(kubernetes, pod["metadata"]["uid"]):
        following.start()
        status = ended(desk, launched)
    assert (status.cause, "does not answer" in status.reason) == (Cause.LOST, True), status
    following.join(400)
    (end,) = ends  # of the attempt that was lost, or of the next one, where it looked only once the node was back
    assert end and (end.infrastructure or end.state == "completed"), end
    goes_on(desk, request)


def test_a_node_that_is_gone_for_good(desk: Desk, kubernetes: TestCluster) -> None:
    """As a cloud takes it away: its machine and its Node object."""
    request, launched = begun(desk)
    api = cluster_of(desk).api
    (node,) = api.items(NODES)
    with node_away(kubernetes):
        api.delete(f"{NODES}/{node['metadata']['name']}")
        status = ended(desk, launched)
    assert status.cause and status.cause.infrastructure, status
    goes_on(desk, request)


def test_a_node_that_is_started_again(desk: Desk, kubernetes: TestCluster) -> None:
    request, launched = begun(desk)
    with node_away(kubernetes):
        pass
    status = ended(desk, launched)
    assert status.cause and status.cause.infrastructure, status
    goes_on(desk, request)
