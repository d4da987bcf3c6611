"""A Kubernetes cluster as one owner sees it: volumes are claims, jobs are Jobs, the owner is the namespace."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from blocks.clusters.job import Job, SecretRef
from blocks.clusters.kubernetes import labels as marks
from blocks.clusters.kubernetes.api import Api
from blocks.clusters.kubernetes.call import Caller, KubernetesStream
from blocks.clusters.kubernetes.jobs import KubernetesJobs
from blocks.clusters.kubernetes.labels import selector
from blocks.clusters.kubernetes.nodes import Nodes
from blocks.clusters.kubernetes.place import Place
from blocks.clusters.kubernetes.preflight import Preflight
from blocks.clusters.kubernetes.sessions import KubernetesSessions
from blocks.clusters.kubernetes.settings import KubernetesSettings
from blocks.clusters.kubernetes.users import users
from blocks.clusters.kubernetes.volumes import KubernetesVolumes
from blocks.clusters.kubernetes.workloads import Workloads
from blocks.clusters.names import check_name
from blocks.clusters.port import Capacity, Finding
from blocks.clusters.size import parse_size


class KubernetesCluster:
    """One namespace of a cluster.

    Args:
        settings: how to reach it, and how pods and claims are made there.
        name: the cluster's name.
        owner: whose volumes and jobs: the namespace, which exists.
        say: for whoever follows what runs there for hours: is told why it is waited where the API server is away, or
            takes the credentials no more. Without one, that is an error at once or after two minutes.
    """

    def __init__(
        self,
        settings: KubernetesSettings,
        *,
        name: str = "kubernetes",
        owner: str,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.name = name
        self.owner = check_name("owner", owner)
        self.poll_seconds = settings.poll_seconds
        self._settings = settings
        self._place = Place(owner)
        self._say = say
        self.api = Api(name, settings.kubeconfig, settings.context, say=say)
        self._nodes = Nodes(self.api, settings)
        self._workloads = Workloads(self.api, self._place, settings)
        self.volumes = KubernetesVolumes(
            self.api, self._place, settings, name, used_by=self._used_by, let_go=self._let_go
        )
        self.sessions = KubernetesSessions(self.api, self._place, settings, claim=self.volumes.claim, nodes=self._nodes)
        self.jobs = KubernetesJobs(
            self.api,
            self._place,
            settings,
            self._workloads,
            claim=self.volumes.claim,
            nodes=self._nodes.limits,
            make_way=self.sessions.make_way,
        )
        self._preflight = Preflight(
            self.api, self._place, settings, self._nodes, self._workloads, claim=self.volumes.claim
        )
        self._caller = Caller(self.api, self._place, settings, self._workloads, self.sessions)

    def __reduce__(self) -> tuple[Callable[..., "KubernetesCluster"], tuple[object, ...]]:
        """Connections stay where they are: a copy in another process makes its own."""
        return _connect, (self._settings, self.name, self.owner, self._say)

    def call(
        self,
        volume: str | None,
        program: str,
        arguments: Mapping[str, Any],
        *,
        writable: bool = False,
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, SecretRef] | None = None,
        timeout_seconds: float = 600,
    ) -> dict[str, Any]:
        """As the port says: in the volume's session; without a volume or with secrets in a pod of its own."""
        if volume is not None and not secrets:
            return self._caller.in_session(
                volume, program, arguments, writable=writable, env=env or {}, timeout_seconds=timeout_seconds
            )
        single_node = volume is not None and self.volumes.is_single_node(volume)
        return self._caller.in_own_pod(
            volume,
            program,
            arguments,
            writable=writable,
            env=env or {},
            secrets=secrets or {},
            timeout_seconds=timeout_seconds,
            single_node=single_node,
        )

    def stream(
        self,
        volume: str,
        program: str,
        arguments: Mapping[str, Any],
        *,
        writable: bool = False,
        session: str | None = None,
    ) -> AbstractContextManager[KubernetesStream]:
        return self._caller.stream(volume, program, arguments, writable=writable, session=session)

    def capacity(self) -> Capacity:
        """Of all nodes that pods can go to; nothing where we may not look at nodes."""
        found = self._nodes.capacity()
        if self._settings.node_cache:
            return found.model_copy(update={"node_cache_bytes": parse_size(self._settings.node_cache_size)})
        return found

    def preflight(self, job: Job, new_volumes: Mapping[str, int]) -> list[Finding]:
        return self._preflight.look(job, new_volumes)

    def _used_by(self) -> Mapping[str, list[str]]:
        jobs = self._workloads.items(selector({**marks.OURS, marks.KIND: "job"}))
        return users(self.api.items(self._place.pods()), jobs)

    def _let_go(self, volume: str) -> None:
        self.sessions.close([volume])
        self.jobs.forget_pods(volume)


def _connect(
    settings: KubernetesSettings, name: str, owner: str, say: Callable[[str], None] | None
) -> KubernetesCluster:
    return KubernetesCluster(settings, name=name, owner=owner, say=say)
