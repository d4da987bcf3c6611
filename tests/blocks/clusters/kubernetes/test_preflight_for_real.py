"""What is said before a job is submitted, by a real API server."""

from typing import Any

import pytest

from blocks.clusters.errors import ProgramError
from blocks.clusters.job import JobState, SecretRef
from blocks.clusters.port import Finding
from tests.blocks.clusters.bench import GI, on_shelf
from tests.blocks.clusters.kubernetes.conftest import KubernetesBench

pytestmark = pytest.mark.cluster
SLEEP = "import time; time.sleep(600)"
SOURCES = "/api/v1/persistentvolumes"


def findings(k8s: KubernetesBench, new: dict[str, int] | None = None, **asked: Any) -> list[Finding]:
    return k8s.cluster.preflight(k8s.job("one", **asked), new or {})


def quota(k8s: KubernetesBench, **hard: str) -> None:
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": hard}}
    k8s.real.api.post(k8s.core("resourcequotas"), body)
    path = k8s.core("resourcequotas", "team")
    k8s.wait(lambda: (k8s.real.api.get(path).get("status") or {}).get("hard"), "the quota to be counted")


def test_a_job_that_can_start_has_nothing_said_of_it_and_nothing_is_made(k8s: KubernetesBench) -> None:
    k8s.volume()
    assert findings(k8s, mounts=(on_shelf(),), gpus=1) == []
    assert findings(k8s, {"other": GI}, mounts=(on_shelf(volume="other"),)) == []
    assert k8s.real.api.items(k8s.core("pods")) == []
    assert k8s.cluster.jobs.find({}) == []
    assert [volume.name for volume in k8s.cluster.volumes.list()] == ["shelf"]


@pytest.mark.alone
def test_a_quota_that_is_too_small_blocks_and_one_that_is_used_up_makes_it_wait(k8s: KubernetesBench) -> None:
    quota(k8s, **{"requests.nvidia.com/gpu": "1"})
    (never,) = findings(k8s, gpus=2)
    assert (never.subject, never.level) == ("quota", "blocked")
    assert "team" in never.detail and "requests.nvidia.com/gpu=2" in never.detail
    k8s.cluster.jobs.submit(k8s.job("holder", SLEEP, gpus=1))
    k8s.until("holder", JobState.RUNNING)
    (later,) = findings(k8s, gpus=1)
    assert (later.subject, later.level) == ("quota", "warning")
    assert findings(k8s) == []


def test_a_quota_of_storage_is_said_before_the_volume_is_asked_for(k8s: KubernetesBench) -> None:
    quota(k8s, **{"requests.storage": "3Gi"})
    assert findings(k8s, {"new": 2 * GI}, mounts=(on_shelf(volume="new"),)) == []
    (found,) = findings(k8s, {"new": 4 * GI}, mounts=(on_shelf(volume="new"),))
    assert (found.subject, found.level) == ("quota", "blocked")
    assert "3Gi" in found.detail


def test_a_limit_that_the_namespace_gives_is_said_before_it_kills_the_run(k8s: KubernetesBench) -> None:
    limits = {"limits": [{"type": "Container", "default": {"memory": "48Mi"}, "defaultRequest": {"memory": "32Mi"}}]}
    k8s.real.api.post(k8s.core("limitranges"), {"metadata": {"name": "team"}, "spec": limits})
    (found,) = findings(k8s, init_command=("true",))
    assert (found.subject, found.level) == ("limits", "warning")
    assert "container init gets no more than 48Mi of memory; container main gets no more than 48Mi" in found.detail
    assert "memory_bytes" in found.remedy
    assert findings(k8s, memory_bytes=64 * 2**20) == []


def test_a_limit_range_that_refuses_the_pod_says_so(k8s: KubernetesBench) -> None:
    limits = {"limits": [{"type": "Container", "max": {"cpu": "250m"}}]}
    k8s.real.api.post(
        k8s.core("limitranges"),
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": limits},
    )
    found = k8s.wait(lambda: findings(k8s, cpus=2), "the limit range to be seen")
    assert [f.level for f in found] == ["blocked"]
    assert "cpu" in found[0].detail and "250m" in found[0].detail


def test_a_policy_that_refuses_the_pod_says_so(k8s: KubernetesBench) -> None:
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    k8s.real.api.patch(f"/api/v1/namespaces/{k8s.cluster.owner}", label)
    host = k8s.connect_with(pod_patch={"spec": {"hostNetwork": True}})
    found = k8s.wait(lambda: findings(host), "the policy to be seen")
    assert [f.level for f in found] == ["blocked"]
    assert "hostNetwork" in found[0].detail
    assert findings(k8s) == []  # ours are as restricted as that


def test_what_is_missing_is_said(k8s: KubernetesBench) -> None:
    (found,) = findings(k8s, secrets={"T": SecretRef(name="hub", key="token")})
    assert found.level == "blocked" and "no secret 'hub'" in found.detail
    (found,) = findings(k8s, mounts=(on_shelf(),))
    assert found.level == "blocked" and "no volume 'shelf'" in found.detail


def test_a_volume_that_the_gpu_nodes_do_not_reach_is_said_with_both(k8s: KubernetesBench) -> None:
    k8s.volume("shelf")
    name = f"{k8s.cluster.owner}-far"
    away = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["elsewhere"]}]}]
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "hostPath": {"path": "/tmp"},
        "storageClassName": "far",
        "persistentVolumeReclaimPolicy": "Delete",
        "nodeAffinity": {"required": {"nodeSelectorTerms": away}},
        "claimRef": {"namespace": k8s.cluster.owner, "name": "far"},
    }
    k8s.real.api.post(
        SOURCES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    )
    try:
        k8s.connect_with(storage_class="far", access_mode="ReadWriteMany").volume("far")
        (found,) = findings(k8s, mounts=(on_shelf(volume="far"),), gpus=1)
        assert (found.subject, found.level) == ("volume far", "blocked")
        assert "no node" in found.detail and "127.0.0.1" in found.detail
        autoscaling = k8s.connect_with(autoscales=True)
        assert [f.level for f in findings(autoscaling, mounts=(on_shelf(volume="far"),), gpus=1)] == ["warning"]
    finally:
        k8s.real.api.delete(f"{SOURCES}/{name}")


def test_a_jobset_that_has_to_be_and_can_not_is_said(k8s: KubernetesBench) -> None:
    if not k8s.kubernetes.ours:
        pytest.skip("which may have JobSet")
    always = k8s.connect_with(jobset="always")
    (found,) = findings(always, nodes=2)
    assert (found.subject, found.level) == ("job", "blocked")
    assert "does not serve jobset.x-k8s.io/v1alpha2" in found.detail
    assert findings(always) == findings(k8s, nodes=2) == []


def test_where_a_single_node_volume_is_mounted_is_said(k8s: KubernetesBench) -> None:
    k8s.volume()
    k8s.cluster.call("shelf", "runs.list", {})  # an internal session makes way, and is not worth a word
    assert findings(k8s, mounts=(on_shelf(),)) == []
    k8s.cluster.jobs.submit(k8s.job("reader", SLEEP, mounts=(on_shelf(),)))
    k8s.until("reader", JobState.RUNNING)
    (found,) = findings(k8s, mounts=(on_shelf(),))
    assert found.level == "note"
    assert "job reader" in found.detail and "127.0.0.1" in found.detail


def test_a_root_that_is_not_ours_is_found_by_writing(k8s: KubernetesBench) -> None:
    """The node's own folder stands for storage that ignores fsGroup."""
    name = f"{k8s.cluster.owner}-roots"
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "hostPath": {"path": f"/var/lib/{name}", "type": "DirectoryOrCreate"},
        "storageClassName": "roots",
        "claimRef": {"namespace": k8s.cluster.owner, "name": "roots"},
    }
    k8s.real.api.post(
        SOURCES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    )
    try:
        k8s.connect_with(storage_class="roots", access_mode="ReadWriteMany").volume("roots")
        with pytest.raises(ProgramError, match=r"User 1000 can not write.*belongs to 0:0") as refusal:
            k8s.cluster.call("roots", "volume.probe", {"size_bytes": 2**30}, writable=True)
        assert "chown 1000:1000" in refusal.value.remedy
    finally:
        k8s.real.api.delete(f"{SOURCES}/{name}")
