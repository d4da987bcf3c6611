"""What only Kubernetes does with a volume, produced for real on a cluster."""

from typing import Any

import pytest

from blocks.clusters.errors import ConflictError, InUseError, NotFoundError, SlipwayError
from blocks.clusters.kubernetes.api import ApiError
from blocks.clusters.kubernetes.cluster import KubernetesCluster
from blocks.clusters.volume import VolumeStatus
from tests.blocks.clusters.bench import GI
from tests.blocks.clusters.kubernetes.conftest import KubernetesBench
from tests.cluster.accounts import connect_as, make_account

pytestmark = pytest.mark.cluster
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


def storage_class(k8s: KubernetesBench, name: str, **fields: Any) -> str:
    made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, **fields}
    try:
        k8s.real.api.post(CLASSES, made)
    except ApiError as error:
        assert error.reason == "AlreadyExists"
    return name


def test_growing_is_growing_until_the_storage_has_grown(k8s: KubernetesBench) -> None:
    k8s.volume("shelf", GI)
    grown = k8s.cluster.volumes.grow("shelf", 2 * GI)
    assert (grown.status, grown.size, grown.actual_size) == (VolumeStatus.GROWING, 2 * GI, GI)
    assert "1Gi" in grown.reason
    claim = k8s.core("persistentvolumeclaims", "shelf")
    k8s.real.api.patch(  # the test plays the resizer
        claim + "/status",
        {"status": {"conditions": [{"type": "FileSystemResizePending", "status": "True"}]}},
    )
    assert "once a pod mounts it" in k8s.cluster.volumes.get("shelf").reason
    k8s.real.api.patch(claim + "/status", {"status": {"capacity": {"storage": "2Gi"}, "conditions": []}})
    done = k8s.cluster.volumes.get("shelf")
    assert (done.status, done.actual_size) == (VolumeStatus.READY, 2 * GI)


def test_a_class_that_can_not_grow_is_named(k8s: KubernetesBench) -> None:
    fixed = storage_class(k8s, "test-fixed", provisioner="kubernetes.io/host-path")
    bench = k8s.connect_with(storage_class=fixed)
    bench.volume("shelf", GI)
    with pytest.raises(SlipwayError, match=r"test-fixed.*allowVolumeExpansion"):
        bench.cluster.volumes.grow("shelf", 2 * GI)


def test_a_class_that_waits_for_its_first_consumer_is_no_error(k8s: KubernetesBench) -> None:
    late = storage_class(
        k8s, "test-late", provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer"
    )
    volumes = k8s.connect_with(storage_class=late).cluster.volumes
    volumes.create("shelf", GI)
    found = volumes.get("shelf")
    assert (found.status, found.actual_size) == (VolumeStatus.READY, None)
    assert "first" in found.reason
    volumes.delete("shelf")


def test_a_volume_that_is_not_provisioned_says_why_and_is_not_deleted(k8s: KubernetesBench) -> None:
    volumes = k8s.connect_with(storage_class="no-such-class").cluster.volumes
    volumes.create("shelf", GI)
    waiting = k8s.wait(lambda: v if (v := volumes.get("shelf")).reason else None)
    assert waiting.status == VolumeStatus.PROVISIONING
    assert "no-such-class" in waiting.reason
    with pytest.raises(InUseError, match="provisioned"):
        volumes.delete("shelf")


def test_a_notebook_keeps_a_volume_from_being_deleted(k8s: KubernetesBench) -> None:
    k8s.volume()
    spec = {
        "containers": [{"name": "x", "image": k8s.kubernetes.image, "command": ["sleep", "600"]}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "shelf"}}],
    }
    notebook = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "notebook"}, "spec": spec}
    k8s.real.api.post(k8s.core("pods"), notebook)
    with pytest.raises(InUseError, match="pod notebook"):
        k8s.cluster.volumes.delete("shelf")


def test_a_claim_that_is_not_ours_is_no_volume(k8s: KubernetesBench) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "theirs"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    k8s.real.api.post(k8s.core("persistentvolumeclaims"), claim)
    assert k8s.cluster.volumes.list() == []
    with pytest.raises(NotFoundError, match=r"theirs.*label pvc"):
        k8s.cluster.volumes.get("theirs")
    with pytest.raises(ConflictError, match=r"theirs.*not a volume of Slipway's.*another name"):
        k8s.cluster.volumes.create("theirs", GI)


def test_who_may_not_delete_is_told_so_before_anything_is_tried(k8s: KubernetesBench) -> None:
    k8s.volume()
    rules = [
        {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list"]},
    ]
    worker = as_worker(k8s, rules)
    assert [volume.name for volume in worker.volumes.list()] == ["shelf"]
    with pytest.raises(SlipwayError, match="may not delete volumes"):
        worker.volumes.delete("shelf")
    with pytest.raises(SlipwayError, match="forbidden"):
        worker.volumes.create("attic", GI)
    assert k8s.cluster.volumes.get("shelf").status == VolumeStatus.READY


def as_worker(k8s: KubernetesBench, rules: list[dict[str, Any]]) -> KubernetesCluster:
    """The cluster as an account with these rights sees it."""
    make_account(k8s.real.api, k8s.cluster.owner, "worker", rules)
    return connect_as(k8s.kubernetes, k8s.real.api, k8s.cluster.owner, "worker")
