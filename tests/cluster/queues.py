"""Queues of Kueue for tests on the cluster: quota for GPUs that nobody has."""

import contextlib
from collections.abc import Iterator
from typing import Any

from blocks.clusters.kubernetes.api import ApiError
from blocks.clusters.kubernetes.cluster import KubernetesCluster
from blocks.clusters.kubernetes.place import KUEUE

_VERSION = "v1beta2"
_ANYTHING = {"cpu": "1000", "memory": "1000Gi", "ephemeral-storage": "1000Gi"}
_PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"


class Queues:
    """A ClusterQueue and a LocalQueue `team` of one owner, both gone after use.

    Args:
        gpus: its quota; of everything else there is enough.
    """

    def __init__(self, cluster: KubernetesCluster, gpus: int) -> None:
        self._api, self.owner = cluster.api, cluster.owner
        self._priorities: list[str] = []
        quota = {"nvidia.com/gpu": gpus, **_ANYTHING}
        flavor = {
            "name": self.owner,
            "resources": [{"name": name, "nominalQuota": value} for name, value in quota.items()],
        }
        self._make(f"{KUEUE}/{_VERSION}/resourceflavors", "ResourceFlavor", self.owner, {})
        self._make(
            f"{KUEUE}/{_VERSION}/clusterqueues",
            "ClusterQueue",
            self.owner,
            {
                "namespaceSelector": {},
                "preemption": {"withinClusterQueue": "LowerPriority"},
                "resourceGroups": [{"coveredResources": list(quota), "flavors": [flavor]}],
            },
        )
        self._make(self._namespaced("localqueues"), "LocalQueue", "team", {"clusterQueue": self.owner})

    def hold(self, policy: str) -> None:
        """Stop the ClusterQueue ("Hold"), or let it go on ("None")."""
        self._api.patch(f"{KUEUE}/{_VERSION}/clusterqueues/{self.owner}", {"spec": {"stopPolicy": policy}})

    def workload(self, uid: str) -> dict[str, Any]:
        """Of a job or a JobSet."""
        found = self._api.items(self._namespaced("workloads"), {"labelSelector": f"kueue.x-k8s.io/job-uid={uid}"})
        (workload,) = found
        return workload

    def conditions(self, uid: str) -> dict[str, str]:
        return {c["type"]: c["status"] for c in self.workload(uid).get("status", {}).get("conditions", ())}

    def priority(self, value: int) -> str:
        """A PriorityClass; its name."""
        name = f"{self.owner}-{value}"
        self._make(_PRIORITIES, "PriorityClass", name, None, value=value)
        self._priorities.append(name)
        return name

    def take_away(self) -> None:
        for path in (
            f"{self._namespaced('localqueues')}/team",
            f"{KUEUE}/{_VERSION}/clusterqueues/{self.owner}",
            f"{KUEUE}/{_VERSION}/resourceflavors/{self.owner}",
            *(f"{_PRIORITIES}/{name}" for name in self._priorities),
        ):
            with contextlib.suppress(ApiError):
                self._api.delete(path)

    def _namespaced(self, kind: str) -> str:
        return f"{KUEUE}/{_VERSION}/namespaces/{self.owner}/{kind}"

    def _make(self, path: str, kind: str, name: str, spec: dict[str, Any] | None, **more: Any) -> None:
        _, _, group, version, *_ = path.split("/")
        made = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name}, **more}
        self._api.post(path, made if spec is None else {**made, "spec": spec})


@contextlib.contextmanager
def queues_of(cluster: KubernetesCluster, gpus: int = 1) -> Iterator[Queues]:
    made = Queues(cluster, gpus)
    try:
        yield made
    finally:
        made.take_away()
