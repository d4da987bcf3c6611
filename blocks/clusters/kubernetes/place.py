"""Paths of an owner's objects at an API server: the owner is the namespace."""

from dataclasses import dataclass

from blocks.clusters.kubernetes.jobset import API_VERSION


@dataclass(frozen=True)
class Place:
    """One namespace.

    Args:
        owner: its name.
    """

    owner: str

    def jobs(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.owner}/jobs"

    def job(self, name: str) -> str:
        return f"{self.jobs()}/{name}"

    def jobsets(self) -> str:
        return f"{JOBSETS}/namespaces/{self.owner}/jobsets"

    def jobset(self, name: str) -> str:
        return f"{self.jobsets()}/{name}"

    def kueue_workloads(self, version: str) -> str:
        return f"{KUEUE}/{version}/namespaces/{self.owner}/workloads"

    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.owner}/pods"

    def pod(self, name: str) -> str:
        return f"{self.pods()}/{name}"

    def claims(self) -> str:
        return f"/api/v1/namespaces/{self.owner}/persistentvolumeclaims"

    def claim(self, name: str) -> str:
        return f"{self.claims()}/{name}"

    def services(self) -> str:
        return f"/api/v1/namespaces/{self.owner}/services"

    def secret(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.owner}/secrets/{name}"

    def events(self) -> str:
        return f"/api/v1/namespaces/{self.owner}/events"


NODES = "/api/v1/nodes"
JOBSETS = f"/apis/{API_VERSION}"
KUEUE = "/apis/kueue.x-k8s.io"
MAY_I = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def persistent_volume(name: str) -> str:
    return f"/api/v1/persistentvolumes/{name}"


def storage_class(name: str) -> str:
    return f"/apis/storage.k8s.io/v1/storageclasses/{name}"
