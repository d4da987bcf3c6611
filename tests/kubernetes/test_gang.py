"""A run of several nodes on one volume: its pods meet by name, train, and go on together once one of them was lost."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blocks.clusters.kubernetes.cluster import KubernetesCluster
from blocks.hub_access import HubAccess
from blocks.trainer_settings import Resources, TrainerSettings
from tasks.runs.ask import ask_run
from tasks.runs.follow import Progress, follow
from tasks.runs.launch import launch
from tasks.stages.source import DatasetRequest
from tests.cluster.access import TestCluster
from tests.kubernetes.conftest import on_this_machine
from tests.kubernetes.test_main_job import until_checkpoint
from tests.tasks.conftest import CONFIG, Desk

pytestmark = pytest.mark.cluster

TRAINER = """
import socket, subprocess, sys, time
config, rank, place = sys.argv[1], sys.argv[2], (sys.argv[3], int(sys.argv[4]))
if rank == "0":
    other, _ = socket.create_server(("", place[1])).accept()
    print("met", other.recv(99).decode(), flush=True)
    raise SystemExit(subprocess.run(["python", "-m", "tasks.pod.trainers.tiny.program", "@", config]).returncode)
while True:
    try:
        with socket.create_connection(place, 5) as first:
            first.settimeout(None)
            first.sendall(socket.getfqdn().encode())
            first.recv(1)
        break
    except OSError:
        time.sleep(0.2)
"""
"""The first node trains once the other one has found it; that one stays for as long as the first trains."""

OPTIONS = {
    "command": ["python", "-c", TRAINER, "{config}", "{node_rank}", "{master_addr}", "{master_port}"],
    "keys": {
        "model": "model.name",
        "dataset": "data.name",
        "output": "output_dir",
        "resume": "resume.dir",
        "max_steps": "max_steps",
        "checkpoint_every": "ckpt.interval",
    },
    "syntax": "toml",
}


@pytest.fixture
def shared(kubernetes: TestCluster, owner: str) -> Iterator[str]:
    """A class that has one volume, `research` of this owner, which several nodes can mount."""
    if not kubernetes.ours:
        pytest.skip("makes a volume of the one node's disk")
    name = f"shared-{owner}"
    folder = Path(kubernetes.kubeconfig).parent.parent / "hostpath" / name
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"},
        "storageClassName": name,
        "claimRef": {"namespace": owner, "name": "research"},
    }
    api, path = kubernetes.connect(owner).api, "/api/v1/persistentvolumes"
    api.post(path, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
    yield name
    api.delete(f"{path}/{name}")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("way", ["job", pytest.param("jobset", marks=pytest.mark.alone)])
def test_a_run_of_two_nodes_goes_on_after_one_of_its_pods_was_killed(
    kubernetes: TestCluster,
    owner: str,
    shared: str,
    hub_url: str,
    demo_assets: Path,
    way: str,
    request: pytest.FixtureRequest,
) -> None:
    if way == "jobset":
        request.getfixturevalue("jobset")
    settings: dict[str, Any] = {"storage_class": shared, "access_mode": "ReadWriteMany", "poll_seconds": 0.5}
    beside = kubernetes.connect(owner, pod_patch=on_this_machine(demo_assets), **settings)
    cluster = kubernetes.connect(owner, jobset="always" if way == "jobset" else "never", **settings)
    asked = ask_run(
        "one",
        CONFIG,
        TrainerSettings(kind="command", options=OPTIONS, resources=Resources(cpus=0.1, nodes=2)),
        changes={"pace.step_seconds": 5.0},
        volume="research",
        volume_size="1Gi",
        dataset=DatasetRequest(name="harbour", source=str(demo_assets / "harbour")),
    )
    record = Desk(beside, HubAccess(endpoint=hub_url), demo_assets, volume="research").record(asked)

    def train() -> Progress:
        (progress,) = follow(cluster, [launch(cluster, record)], lambda progress: None)
        return progress

    launched = launch(cluster, record)
    until_checkpoint(Desk(cluster, HubAccess(endpoint=hub_url), demo_assets, volume="research"), record)
    assert jobsets(cluster) == ([launched.job] if way == "jobset" else [])
    (other,) = [
        name for name in pods(cluster) if name.startswith(launched.job) and "-1-" in name.removeprefix(launched.job)
    ]
    cluster.api.delete(f"/api/v1/namespaces/{owner}/pods/{other}", grace_seconds=0)

    again = train()
    if again.end and again.end.infrastructure:  # followed to its end before it was seen to be gone
        again = train()
    assert again.end and again.end.state == "completed", again.end
    assert (again.launch.attempt.attempt, again.launch.attempt.resume.kind) == (2, "own")
    assert again.launch.attempt.resume.step >= 4
    assert [c["step"] for c in again.checkpoints if c["verdict"] == "complete"][-1] == 12
    assert any(line.startswith("met ") and f".{owner}.svc" in line for line in cluster.jobs.logs(again.launch.job))
    assert not any(status.live for status in cluster.jobs.find({}))


def pods(cluster: KubernetesCluster) -> list[str]:
    path = f"/api/v1/namespaces/{cluster.owner}/pods"
    return [pod["metadata"]["name"] for pod in cluster.api.items(path, {"labelSelector": "slipway.dev/run=one"})]


def jobsets(cluster: KubernetesCluster) -> list[str]:
    """Names of those that there are; none where JobSet is not."""
    found = cluster.api.find(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{cluster.owner}/jobsets") or {"items": []}
    return [jobset["metadata"]["name"] for jobset in found["items"]]
