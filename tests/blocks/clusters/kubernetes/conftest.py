"""A bench on Kubernetes, with the API server in view."""

from collections.abc import Iterator
from typing import Any

import pytest

from blocks.clusters.kubernetes.cluster import KubernetesCluster
from blocks.clusters.kubernetes.jobset import jobset_name
from blocks.clusters.kubernetes.place import Place
from tests.blocks.clusters.bench import Bench
from tests.cluster.access import TestCluster


class KubernetesBench(Bench):
    """A bench whose objects can be looked at and changed behind our back.

    Args:
        jobset: whether its jobs of several nodes are JobSets.
    """

    kubernetes: TestCluster
    jobset = False

    @property
    def real(self) -> KubernetesCluster:
        assert isinstance(self.cluster, KubernetesCluster)
        return self.cluster

    def connect_with(self, **changes: Any) -> "KubernetesBench":
        """The same namespace with other settings."""
        owner = self.cluster.owner
        cluster, connect = self.kubernetes.connect(owner, **changes), self.kubernetes.source(owner, **changes)
        return kubernetes_bench_of(Bench(cluster, connect, True, self.capacity, self.look_seconds), self.kubernetes)

    def core(self, kind: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.cluster.owner}/{kind}" + (f"/{name}" if name else "")

    def object_of(self, job: str) -> str:
        """The path of what stands for a job of several nodes."""
        place = Place(self.cluster.owner)
        return place.jobset(jobset_name(job)) if self.jobset else place.job(job)

    def suspend(self, job: str, suspend: bool) -> None:
        """What a queue does."""
        self.real.api.patch(self.object_of(job), {"spec": {"suspend": suspend}})

    def pod_of(self, job: str) -> Any:
        query = {"labelSelector": f"batch.kubernetes.io/job-name={job}"}
        return self.wait(lambda: self.real.api.items(self.core("pods"), query), f"the pod of {job}")[0]


def kubernetes_bench_of(bench: Bench, kubernetes: TestCluster) -> KubernetesBench:
    found = KubernetesBench(**vars(bench))
    found.kubernetes = kubernetes
    return found


@pytest.fixture
def k8s(kubernetes_bench: Bench, kubernetes: TestCluster) -> Iterator[KubernetesBench]:
    yield kubernetes_bench_of(kubernetes_bench, kubernetes)
