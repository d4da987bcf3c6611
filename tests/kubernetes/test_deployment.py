"""The main job as pods, started as people start it: `prefect deployment run`."""

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from blocks.clusters.job import JobState, SecretRef
from blocks.clusters.kubernetes.cluster import KubernetesCluster
from tasks.runs.launch import read_run
from tests.cluster.access import TestCluster
from tests.conftest import Running
from tests.kubernetes.spread import argv_of_all, found_in_objects
from tests.kubernetes.waiting import wait_until

pytestmark = pytest.mark.cluster


TOKEN = f"hf_{secrets.token_hex(16)}"


@pytest.fixture
def hub(running: Running, owner: str, cluster: KubernetesCluster) -> Iterator[object]:
    """A reference to a Hub's block that names a token, which is a Secret of the namespace."""
    from blocks.hub import HuggingFaceHub

    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub"}, "stringData": {"token": TOKEN}}
    cluster.api.post(f"/api/v1/namespaces/{owner}/secrets", secret)
    token = SecretRef(name="hub", key="token")
    with temporary_settings({PREFECT_API_URL: running.url}):
        usual = HuggingFaceHub.load("demo")
        assert isinstance(usual, HuggingFaceHub)
        document = HuggingFaceHub(endpoint=usual.endpoint, token=token).save(owner)
    yield {"$ref": {"block_document_id": str(document)}}


def test_the_pipeline_runs_as_pods_and_tells_its_token_to_nobody(
    running: Running, block: object, hub: object, cluster: KubernetesCluster, kubernetes: TestCluster
) -> None:
    with argv_of_all() as argv:
        asked = running.run("pipeline/local", cluster=block, hub=hub, volume="research", name="alpha")
        running.completed(asked, seconds=800)
    for seen in ("prefect.engine", "tasks.pod.program", "tasks.pod.trainers.tiny"):  # the flow, and what pods ran
        assert any(seen in words for words in argv), seen
    assert not [words for words in argv if TOKEN in words]
    assert found_in_objects(cluster, TOKEN) == []
    for file in Path(running.env["PREFECT_HOME"]).glob("prefect.db*"):
        assert TOKEN.encode() not in file.read_bytes()
    if kubernetes.ours:
        volumes = Path(kubernetes.kubeconfig).parent.parent / "hostpath"
        files = [path for path in volumes.rglob("*") if path.is_file() and not path.is_symlink()]
        assert len(files) > 20
        for path in files:
            with contextlib.suppress(FileNotFoundError):  # of a test beside this one, which has ended
                assert TOKEN.encode() not in path.read_bytes(), path
    assert [job.state for job in cluster.jobs.find({"slipway.dev/volume": "research"})] == [JobState.COMPLETED] * 2
    child = read_run(cluster, "research", "alpha-fork")
    assert child.last and child.last.resume.kind == "hold" and child.last.resume.step == 60


def test_cancelling_the_flow_stops_the_pod(running: Running, block: object, cluster: KubernetesCluster) -> None:
    endless = {"pace.step_seconds": 2, "max_steps": 4000}
    asked = running.run("finetune/local", cluster=block, volume="v", name="long", set=endless)
    wait_until(lambda: any(j.state == JobState.RUNNING for j in cluster.jobs.find({"slipway.dev/run": "long"})))
    running.prefect("flow-run", "cancel", asked)
    running.wait(asked, "CANCELLED", seconds=300)
    wait_until(lambda: [j.state for j in cluster.jobs.find({"slipway.dev/run": "long"})] == [JobState.STOPPED])
