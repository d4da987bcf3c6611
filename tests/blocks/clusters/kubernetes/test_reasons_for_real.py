"""The rows of the diagnosis that one node can produce, each produced for real: what is said, and what it counts as."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from blocks.clusters.job import Cause, JobState, JobStatus
from blocks.clusters.kubernetes.place import NODES
from tests.blocks.clusters.kubernetes.conftest import KubernetesBench
from tests.cluster import kueue

pytestmark = pytest.mark.cluster
SLEEP = "import time; time.sleep(600)"


def patched(k8s: KubernetesBench, spec: dict[str, Any], **settings: Any) -> KubernetesBench:
    return k8s.connect_with(pod_patch={"spec": spec}, **settings)


def waiting(bench: KubernetesBench, words: str) -> JobStatus:
    found: JobStatus = bench.wait(lambda: s if words in (s := bench.status("one")).reason else None, words)
    assert found.live
    return found


@contextmanager
def tainted(k8s: KubernetesBench, effect: str) -> Iterator[None]:
    """The one node is tainted for the time of the block."""
    (node,) = k8s.real.api.items(NODES)
    path = f"{NODES}/{node['metadata']['name']}"
    k8s.real.api.patch(path, {"spec": {"taints": [{"key": "slipway.dev/test", "effect": effect}]}})
    try:
        yield
    finally:
        k8s.real.api.patch(path, {"spec": {"taints": None}})


def test_an_image_that_must_be_there_and_is_not(k8s: KubernetesBench) -> None:
    bench = k8s.connect_with(image_pull_policy="Never")
    bench.cluster.jobs.submit(k8s.job("one", image="localhost/no/such:1"))
    assert waiting(bench, "ErrImageNeverPull").state == JobState.STARTING


def test_a_container_that_the_runtime_can_not_make(k8s: KubernetesBench) -> None:
    below_a_file = {"name": "odd", "hostPath": {"path": "/etc/hostname/x"}}
    mount = {"name": "main", "volumeMounts": [{"name": "odd", "mountPath": "/odd"}]}
    bench = patched(k8s, {"volumes": [below_a_file], "containers": [mount]})
    bench.cluster.jobs.submit(k8s.job("one"))
    assert waiting(bench, "The container runtime can not make its container").state == JobState.STARTING


def test_a_volume_that_can_not_be_mounted_is_explained_by_the_pods_events(k8s: KubernetesBench) -> None:
    absent = {"name": "absent", "configMap": {"name": "no-such-map"}}
    mount = {"name": "main", "volumeMounts": [{"name": "absent", "mountPath": "/absent"}]}
    bench = patched(k8s, {"volumes": [absent], "containers": [mount]})
    bench.cluster.jobs.submit(k8s.job("one"))
    assert "no-such-map" in waiting(bench, "FailedMount").reason


def test_a_node_that_does_not_exist_is_waited_for_no_longer_than_was_said(k8s: KubernetesBench) -> None:
    bench = patched(k8s, {"nodeSelector": {"no": "such"}}, queue_grace_seconds=5)
    bench.cluster.jobs.submit(k8s.job("one"))
    assert waiting(bench, "waits for a node of that kind").state == JobState.QUEUED
    ended = bench.ended("one")
    assert ended.cause == Cause.START and "No node took it in 5 seconds" in ended.reason


@pytest.mark.alone
def test_a_tainted_node_is_waited_for(k8s: KubernetesBench) -> None:
    with tainted(k8s, "NoSchedule"):
        k8s.cluster.jobs.submit(k8s.job("one"))
        waiting(k8s, "waits for a node that takes it (tolerations)")
    assert k8s.ended("one").state == JobState.COMPLETED


@pytest.mark.alone
def test_a_node_that_is_emptied_by_a_taint_makes_a_lost_job(k8s: KubernetesBench) -> None:
    k8s.cluster.jobs.submit(k8s.job("one", SLEEP))
    k8s.until("one", JobState.RUNNING)
    with tainted(k8s, "NoExecute"):
        ended = k8s.ended("one")
    assert (ended.cause, "tainted" in ended.reason) == (Cause.LOST, True)
    assert ended.cause and ended.cause.infrastructure


def test_a_node_without_room_after_all_evicts(k8s: KubernetesBench) -> None:
    """The scheduler is passed by, as it is when two of them place pods."""
    bench = patched(k8s, {"nodeName": k8s.real.api.items(NODES)[0]["metadata"]["name"]}, autoscales=True)
    bench.cluster.jobs.submit(k8s.job("one", cpus=500))
    ended = bench.ended("one")
    assert (ended.cause, "no room for it after all" in ended.reason) == (Cause.EVICTED, True)


def test_a_node_that_no_longer_fits_evicts(k8s: KubernetesBench) -> None:
    name = k8s.real.api.items(NODES)[0]["metadata"]["name"]
    bench = patched(k8s, {"nodeName": name, "nodeSelector": {"no": "such"}})
    bench.cluster.jobs.submit(k8s.job("one"))
    ended = bench.ended("one")
    assert (ended.cause, "no longer fits" in ended.reason) == (Cause.EVICTED, True)


def test_what_a_node_does_not_allow_is_no_reason_to_try_again(k8s: KubernetesBench) -> None:
    unsafe = {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}
    bench = patched(k8s, unsafe)
    bench.cluster.jobs.submit(k8s.job("one"))
    ended = bench.ended("one")
    assert (ended.cause, "sysctl" in ended.reason) == (Cause.START, True)
    assert not Cause.START.infrastructure


def test_a_profile_that_a_node_does_not_have_is_no_reason_to_try_again(k8s: KubernetesBench) -> None:
    if Path("/sys/module/apparmor/parameters/enabled").exists():
        pytest.skip("this node has AppArmor: its kubelet takes the pod, and looks for the profile later")
    profile = {"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "no-such"}}}
    bench = patched(k8s, profile)
    bench.cluster.jobs.submit(k8s.job("one"))
    ended = bench.ended("one")
    assert (ended.cause, "AppArmor" in ended.reason) == (Cause.START, True)


def test_a_sandbox_that_can_not_be_made_is_explained_by_the_pods_events(k8s: KubernetesBench) -> None:
    name = f"no-such-{k8s.cluster.owner}"
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": "no-such"}
    classes = "/apis/node.k8s.io/v1/runtimeclasses"
    k8s.real.api.post(classes, runtime)
    try:
        bench = patched(k8s, {"runtimeClassName": name})
        bench.cluster.jobs.submit(k8s.job("one"))
        assert "FailedCreatePodSandBox" in waiting(bench, "no-such").reason
    finally:
        k8s.real.api.delete(f"{classes}/{name}")


@pytest.mark.alone
def test_what_a_node_gives_to_a_critical_pod_was_evicted(k8s: KubernetesBench) -> None:
    """By the kubelet itself: the scheduler is passed by, as it is for static pods."""
    most = k8s.capacity.cpus * 0.6
    k8s.cluster.jobs.submit(k8s.job("low", SLEEP, cpus=most))
    k8s.until("low", JobState.RUNNING)
    node = k8s.real.api.items(NODES)[0]["metadata"]["name"]
    critical = patched(k8s, {"nodeName": node}, priority_class="system-node-critical")
    critical.cluster.jobs.submit(k8s.job("high", cpus=most))
    ended = k8s.ended("low")
    assert (ended.cause, "preempted" in ended.reason) == (Cause.EVICTED, True)
    assert critical.ended("high").state == JobState.COMPLETED


def test_a_pod_that_is_refused_is_told_from_one_that_waits_for_quota(k8s: KubernetesBench) -> None:
    bench = k8s.connect_with(priority_class="no-such-class")
    bench.cluster.jobs.submit(k8s.job("one"))
    found = waiting(bench, "its pod is refused")
    assert "no-such-class" in found.reason and "quota" not in found.reason


def test_what_a_queue_waits_for_is_said(k8s: KubernetesBench) -> None:
    kueue.install(k8s.kubernetes, lambda look: k8s.wait(look, "Kueue's kind"))
    job = k8s.cluster.jobs.submit(k8s.job("one", SLEEP, queue="team"))
    assert waiting(k8s, "waits in the queue team").reason == "waits in the queue team"
    kueue.queue(k8s.real.api, k8s.cluster.owner, job.uid, "insufficient unused quota for nvidia.com/gpu, 8 more needed")
    assert waiting(k8s, "the queue team: insufficient unused quota for nvidia.com/gpu, 8 more needed").live


def test_a_queue_is_waited_for_until_somebody_starts_the_job(k8s: KubernetesBench) -> None:
    """The test plays Kueue: it starts jobs by ending their suspension, and takes them back by suspending them."""
    bench = k8s.connect_with(queue_grace_seconds=1)
    bench.cluster.jobs.submit(k8s.job("one", SLEEP, queue="team"))
    time.sleep(3)  # longer than it may wait for a node: a queue is no fault
    assert waiting(bench, "waits in the queue team").state == JobState.QUEUED
    path = f"/apis/batch/v1/namespaces/{k8s.cluster.owner}/jobs/one"
    k8s.real.api.patch(path, {"spec": {"suspend": False}})
    first = bench.until("one", JobState.RUNNING)
    k8s.real.api.patch(path, {"spec": {"suspend": True}})
    assert waiting(bench, "waits in the queue team").state == JobState.QUEUED
    k8s.real.api.patch(path, {"spec": {"suspend": False}})
    again = bench.until("one", JobState.RUNNING)
    assert again.uid == first.uid
    assert again.started_at and first.started_at and again.started_at > first.started_at
    assert bench.cluster.jobs.stop("one", grace_seconds=0).state == JobState.STOPPED
