"""The main job as pods: provision, stage, train, fork from the latest completed step."""

import time

import pytest

from blocks.clusters.job import JobState
from blocks.clusters.kubernetes.cluster import KubernetesCluster
from tasks.runs.launch import checkpoints, stop
from tasks.runs.records import PlanRecord
from tests.tasks.conftest import Desk

pytestmark = pytest.mark.cluster


def test_a_run_and_its_fork_from_an_empty_namespace(desk: Desk) -> None:
    parent = desk.train(desk.request("parent"))
    assert parent.end and parent.end.state == "completed", parent.end
    assert [c["step"] for c in parent.checkpoints if c["verdict"] == "complete"] == [4, 8, 12]
    assert parent.end.image_digest
    child = desk.train(desk.fork("parent", "child", max_steps=16))
    assert child.end and child.end.state == "completed", child.end
    assert child.launch.attempt.resume.kind == "hold"
    assert child.launch.attempt.resume.step == 12
    assert [c["step"] for c in child.checkpoints if c["verdict"] == "complete"] == [16]


def test_a_run_that_is_asked_for_again_is_the_same_run(desk: Desk) -> None:
    request = desk.request("one", pace__step_seconds=60)
    first = desk.launch(request)
    assert not first.adopted
    again = desk.launch(request)
    assert again.adopted
    assert len(desk.cluster.jobs.find({"slipway.dev/run": "one"})) == 1
    end = stop(desk.cluster, desk.volume, "one", reason="the test is over")
    assert end and (end.state, end.reason) == ("stopped", "the test is over")


def test_a_run_whose_pod_is_deleted_is_lost_and_its_next_attempt_goes_on(desk: Desk) -> None:
    request = desk.request("one", pace__step_seconds=5.0)
    first = desk.launch(request)
    assert isinstance(desk.cluster, KubernetesCluster)
    api, owner = desk.cluster.api, desk.cluster.owner
    until_checkpoint(desk, first.plan)
    (pod,) = api.items(f"/api/v1/namespaces/{owner}/pods", {"labelSelector": "slipway.dev/run=one"})
    api.delete(f"/api/v1/namespaces/{owner}/pods/{pod['metadata']['name']}", grace_seconds=0)
    lost = desk.train(request)
    if lost.end and lost.end.state == "lost":  # followed to its end before it was seen to be gone
        lost = desk.train(request)
    assert lost.end and lost.end.state == "completed", lost.end
    assert lost.launch.attempt.attempt == 2
    assert lost.launch.attempt.resume.kind == "own"
    assert lost.launch.attempt.resume.step >= 4
    assert [j.state for j in desk.cluster.jobs.find({"slipway.dev/run": "one"})] == [
        JobState.LOST,
        JobState.COMPLETED,
    ]


def until_checkpoint(desk: Desk, plan: PlanRecord) -> None:
    """Wait until a run has a complete checkpoint."""
    until = time.monotonic() + 300
    while not any(c["verdict"] == "complete" for c in checkpoints(desk.cluster, plan)):
        assert time.monotonic() < until, "no checkpoint came"
        time.sleep(0.5)
