"""The main job as pods, started as people start it: `prefect deployment run`."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blocks.clusters.job import JobState
from blocks.clusters.kubernetes.cluster import KubernetesCluster
from tasks.runs.launch import read_run
from tests.cluster.access import TestCluster
from tests.conftest import Running
from tests.kubernetes.conftest import on_this_machine

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture
def cluster(kubernetes: TestCluster, owner: str, demo_assets: Path) -> KubernetesCluster:
    return kubernetes.connect(owner, pod_patch=on_this_machine(demo_assets))


@pytest.fixture
def block(kubernetes: TestCluster, owner: str, demo_assets: Path, running: Running) -> Iterator[object]:
    """A reference to the cluster's block, saved as registration saves it."""
    from blocks.kubernetes_cluster import KubernetesCluster as Block

    settings = kubernetes.settings(pod_patch=on_this_machine(demo_assets)).model_dump()
    document = Block(owner=owner, **settings).save(owner)
    yield {"$ref": {"block_document_id": str(document)}}


def test_the_pipeline_runs_as_pods(running: Running, block: object, cluster: KubernetesCluster) -> None:
    asked = running.run("pipeline/local", cluster=block, volume="research", name="alpha")
    running.completed(asked, seconds=400)
    assert [job.state for job in cluster.jobs.find({"slipway.dev/volume": "research"})] == [JobState.COMPLETED] * 2
    child = read_run(cluster, "research", "alpha-fork")
    assert child.last and child.last.resume.kind == "hold" and child.last.resume.step == 60


def test_cancelling_the_flow_stops_the_pod(running: Running, block: object, cluster: KubernetesCluster) -> None:
    asked = running.run("finetune/local", cluster=block, volume="v", name="long", set={"pace.step_seconds": 2})
    wait_until(lambda: any(j.state == JobState.RUNNING for j in cluster.jobs.find({"slipway.dev/run": "long"})))
    running.prefect("flow-run", "cancel", asked)
    running.wait(asked, "CANCELLED", seconds=120)
    wait_until(lambda: [j.state for j in cluster.jobs.find({"slipway.dev/run": "long"})] == [JobState.STOPPED])


def wait_until(look: Callable[[], bool], seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < until
        time.sleep(0.5)
