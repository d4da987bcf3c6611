"""An internal session lets go of a volume for a job only where that lets the job go somewhere else."""

from typing import Any

import pytest

from blocks.clusters.errors import UsageError
from blocks.clusters.job import JobState
from blocks.clusters.kubernetes import labels as marks
from blocks.clusters.kubernetes.way import in_the_way
from tests.blocks.clusters.bench import on_shelf
from tests.blocks.clusters.kubernetes.conftest import KubernetesBench

SLEEP = "import time; time.sleep(600)"


def pod(node: str | None, *, internal: bool = False) -> dict[str, Any]:
    labels = {marks.INTERNAL: "true"} if internal else {}
    return {"metadata": {"labels": labels}, "spec": {"nodeName": node} if node else {}}


SESSION, WAITING = pod("a", internal=True), pod(None)


@pytest.mark.parametrize(
    ("pods", "able", "is_in_the_way"),
    [
        ([], ["a", "b"], False),
        ([WAITING], None, False),
        ([SESSION], ["a", "b"], True),
        ([SESSION, WAITING], ["b"], True),
        ([SESSION], None, True),
        ([SESSION], ["a"], False),
        ([SESSION], [], False),
        ([SESSION, pod("a")], ["b"], False),
        ([SESSION, pod("a"), WAITING], None, False),
        ([pod(None, internal=True)], ["a"], True),
    ],
)
def test_a_session_is_in_the_way_where_it_alone_keeps_a_job_from_another_node(
    pods: list[Any], able: list[str] | None, is_in_the_way: bool
) -> None:
    assert in_the_way(pods, able) == is_in_the_way


def session_of(bench: KubernetesBench) -> str:
    """The UID of the one internal session, started if it is not there."""
    bench.cluster.call("shelf", "runs.list", {})
    (session,) = [s for s in bench.cluster.sessions.list() if s.internal]
    return str(bench.real.api.get(bench.core("pods", session.id))["metadata"]["uid"])


@pytest.mark.cluster
def test_on_the_only_node_there_is_a_session_and_jobs_share_a_volume(k8s: KubernetesBench) -> None:
    k8s.volume()
    session = session_of(k8s)
    k8s.cluster.jobs.submit(k8s.job("one", mounts=(on_shelf(),)))
    assert k8s.ended("one").state == JobState.COMPLETED
    assert session_of(k8s) == session


@pytest.mark.cluster
def test_where_a_job_might_go_elsewhere_a_session_ends_before_the_first_and_stays_with_it(k8s: KubernetesBench) -> None:
    k8s.volume()
    bench = k8s.connect_with(autoscales=True)
    before = session_of(bench)
    bench.cluster.jobs.submit(k8s.job("one", SLEEP, mounts=(on_shelf(),)))
    bench.until("one", JobState.RUNNING)
    after = session_of(bench)
    assert after != before
    bench.cluster.jobs.submit(k8s.job("two", SLEEP, mounts=(on_shelf(),)))
    bench.until("two", JobState.RUNNING)
    assert session_of(bench) == after


@pytest.mark.cluster
def test_a_volume_for_one_pod_is_refused(k8s: KubernetesBench) -> None:
    spec = {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "shelf", "labels": {**marks.OURS, marks.KIND: "volume"}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    k8s.real.api.post(k8s.core("persistentvolumeclaims"), claim)
    with pytest.raises(UsageError, match="ReadWriteOncePod"):
        k8s.cluster.jobs.submit(k8s.job("one", mounts=(on_shelf(),)))
