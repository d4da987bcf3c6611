"""No right of the shipped roles is there for nothing: without it, something is refused, or unseen."""

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from blocks.clusters.errors import SlipwayError
from blocks.clusters.job import Job, JobState, Mount
from blocks.clusters.kubernetes.cluster import KubernetesCluster
from blocks.clusters.kubernetes.place import Place
from tests.cluster import kueue
from tests.cluster.access import TestCluster, owner_of_its_own
from tests.cluster.accounts import Right, connect_as, give, make_account, rights, rules
from tests.deployments.test_roles_for_real import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
GI = 2**30
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SLEEP = Job(name="one", request_hash="x", command=("sleep", "600"), cpus=0.1)
GANG = Job(name="gang", request_hash="x", command=("true",), cpus=0.1, nodes=2)
PINNED = Job(name="pinned", request_hash="x", command=("true",), cpus=0.1, mounts=(Mount(volume="elsewhere"),))
SHIPPED = {
    "flows": rules("owner/roles.yaml", "slipway"),
    "volumes": rules("owner/roles.yaml", "slipway-volumes"),
    "sight": rules("sight/sight.yaml", "slipway-sight"),
}


def _stop(cluster: KubernetesCluster) -> object:
    """Of a job that runs."""
    if "one" not in cluster.jobs.status(["one"]) or not cluster.jobs.status(["one"])["one"].live:
        with contextlib.suppress(SlipwayError):
            cluster.jobs.delete("one")
        cluster.jobs.submit(SLEEP)
    wait_until(lambda: cluster.jobs.status(["one"])["one"].state == JobState.RUNNING)
    return cluster.jobs.stop("one", grace_seconds=0)


REFUSED: dict[Right, Callable[[KubernetesCluster], object]] = {
    ("batch", "jobs", "get"): lambda cluster: cluster.jobs.stop("done"),
    ("batch", "jobs", "list"): lambda cluster: cluster.jobs.find({}),
    ("batch", "jobs", "create"): lambda cluster: cluster.jobs.submit(SLEEP.model_copy(update={"name": "more"})),
    ("batch", "jobs", "patch"): _stop,
    ("batch", "jobs", "delete"): lambda cluster: cluster.jobs.delete("done"),
    ("", "pods", "get"): lambda cluster: cluster.sessions.open("shelf"),
    ("", "pods", "list"): lambda cluster: cluster.sessions.list(),
    ("", "pods", "create"): lambda cluster: cluster.sessions.open("shelf"),
    ("", "pods", "patch"): _stop,
    ("", "pods", "delete"): lambda cluster: cluster.sessions.stop(cluster.sessions.open("shelf", reuse=True).id),
    ("", "pods/log", "get"): lambda cluster: list(cluster.jobs.logs("done")),
    ("", "pods/exec", "get"): lambda cluster: cluster.call("shelf", "volume.usage", {}),
    ("", "pods/exec", "create"): lambda cluster: cluster.call("shelf", "volume.usage", {}),
    ("", "persistentvolumeclaims", "get"): lambda cluster: cluster.volumes.get("shelf"),
    ("", "persistentvolumeclaims", "list"): lambda cluster: cluster.volumes.list(),
    ("", "persistentvolumeclaims", "create"): lambda cluster: cluster.volumes.create("more", GI),
    ("", "persistentvolumeclaims", "patch"): lambda cluster: cluster.volumes.grow("shelf", 2 * GI),
    ("", "persistentvolumeclaims", "delete"): lambda cluster: cluster.volumes.delete("shelf"),
    ("", "services", "create"): lambda cluster: cluster.jobs.submit(GANG),
}
"""What is refused without a right, in words that name it."""

UNSEEN: dict[Right, Callable[[KubernetesCluster], object]] = {
    ("", "events", "list"): lambda cluster: cluster.volumes.get("odd").reason,
    ("", "nodes", "list"): lambda cluster: cluster.capacity().cpus,
    ("", "persistentvolumes", "get"): lambda cluster: [
        finding for finding in cluster.preflight(PINNED, {}) if finding.subject == "volume elsewhere"
    ],
    ("kueue.x-k8s.io", "workloads", "list"): lambda cluster: (
        "no room for it" in cluster.jobs.status(["queued"])["queued"].reason
    ),
    ("storage.k8s.io", "storageclasses", "get"): lambda cluster: cluster.volumes.get("late").status == "ready",
}
"""What is not known without a right."""

JOBSETS = ("jobset.x-k8s.io", "jobsets")
REFUSED_WITH_JOBSET: dict[Right, Callable[[KubernetesCluster], object]] = {
    (*JOBSETS, "get"): lambda cluster: cluster.jobs.stop("set-done"),
    (*JOBSETS, "list"): lambda cluster: cluster.jobs.find({}),
    (*JOBSETS, "create"): lambda cluster: cluster.jobs.submit(GANG.model_copy(update={"name": "set-more"})),
    (*JOBSETS, "patch"): lambda cluster: cluster.jobs.stop("set-waiting", grace_seconds=0),
    (*JOBSETS, "delete"): lambda cluster: cluster.jobs.delete("set-done"),
}
"""What is refused without a right where JobSet is installed and always used."""


@dataclass(frozen=True)
class Stage:
    """A namespace with volumes and jobs, and an account with all of the shipped roles.

    Args:
        admin: the cluster as its administrator sees it.
        flows: as the account does.
    """

    owner: str
    admin: KubernetesCluster
    flows: KubernetesCluster

    @contextlib.contextmanager
    def without(self, right: Right) -> Iterator[KubernetesCluster]:
        """The cluster as the account sees it when one right is taken from it, with nothing kept from before."""
        (role,) = [name for name, given in SHIPPED.items() if right in rights(given)]
        path = f"{RBAC}/namespaces/{self.owner}/roles/{role}"
        if role == "sight":
            path = f"{RBAC}/clusterroles/{_sight(self.owner)}"
        self.admin.api.patch(path, {"rules": list(_less(SHIPPED[role], right))})
        wait_until(lambda: not self._may(right))
        try:
            yield copy.copy(self.flows)
        finally:
            self.admin.api.patch(path, {"rules": SHIPPED[role]})
            wait_until(lambda: self._may(right))

    def _may(self, right: Right) -> bool:
        group, resource, verb = right
        name, _, part = resource.partition("/")
        asked = {"namespace": self.owner, "group": group, "resource": name, "subresource": part, "verb": verb}
        if right in rights(SHIPPED["sight"]):
            del asked["namespace"]
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return bool(self.flows.api.post(path, {"spec": {"resourceAttributes": asked}})["status"]["allowed"])


def _sight(owner: str) -> str:
    return f"slipway-sight-{owner}"


def _less(given: list[dict[str, Any]], right: Right) -> Iterator[dict[str, Any]]:
    """The same rules without one right, one a resource."""
    for rule in given:
        for resource in rule["resources"]:
            left = [verb for verb in rule["verbs"] if (rule["apiGroups"][0], resource, verb) != right]
            if left:
                yield {"apiGroups": rule["apiGroups"], "resources": [resource], "verbs": left}


@pytest.fixture(scope="module")
def stage(kubernetes: TestCluster) -> Iterator[Stage]:
    with owner_of_its_own(kubernetes) as owner:
        admin = kubernetes.connect(owner)
        roles = f"{RBAC}/namespaces/{owner}"
        make_account(admin.api, owner, "flows", SHIPPED["flows"])
        give(admin.api, roles, "Role", owner, "flows", "volumes", SHIPPED["volumes"])
        give(admin.api, RBAC, "ClusterRole", owner, "flows", _sight(owner), SHIPPED["sight"])
        flows = connect_as(kubernetes, admin.api, owner, "flows")
        _furnish(kubernetes, admin)
        yield Stage(owner, admin, flows)
        for kind in ("clusterroles", "clusterrolebindings"):
            admin.api.delete(f"{RBAC}/{kind}/{_sight(owner)}")
        admin.api.delete(f"/apis/storage.k8s.io/v1/storageclasses/late-{owner}")
        admin.api.delete(f"/api/v1/persistentvolumes/elsewhere-{owner}")


def _furnish(kubernetes: TestCluster, admin: KubernetesCluster) -> None:
    """A usable volume, an ended job, and volumes of which only some rights tell how they are."""
    owner = admin.owner
    admin.volumes.create("shelf", GI)
    admin.jobs.submit(Job(name="done", request_hash="x", command=("true",), cpus=0.1))
    later = {
        "metadata": {"name": f"late-{owner}"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    admin.api.post("/apis/storage.k8s.io/v1/storageclasses", later)
    kubernetes.connect(owner, storage_class=f"late-{owner}").volumes.create("late", GI)
    kubernetes.connect(owner, storage_class=f"no-such-{owner}").volumes.create("odd", GI)
    nowhere = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["elsewhere"]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": f"pinned-{owner}",
        "hostPath": {"path": "/nowhere"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [nowhere]}]}},
    }
    admin.api.post("/api/v1/persistentvolumes", {"metadata": {"name": f"elsewhere-{owner}"}, "spec": spec})
    kubernetes.connect(owner, storage_class=f"pinned-{owner}").volumes.create("elsewhere", GI)
    if kubernetes.ours:
        kueue.install(kubernetes, wait_until)
        queued = admin.jobs.submit(SLEEP.model_copy(update={"name": "queued", "queue": "team"}))
        kueue.queue(admin.api, owner, queued.uid, "no room for it")
    wait_until(lambda: admin.volumes.get("shelf").status == "ready")
    wait_until(lambda: admin.volumes.get("elsewhere").status == "ready")
    wait_until(lambda: admin.jobs.status(["done"])["done"].state == JobState.COMPLETED)
    wait_until(lambda: admin.volumes.get("odd").reason)


def test_each_right_of_the_shipped_roles_is_here() -> None:
    assert sorted([*REFUSED, *UNSEEN, *REFUSED_WITH_JOBSET]) == sorted(rights(*SHIPPED.values()))


@pytest.mark.parametrize("right", REFUSED, ids="-".join)
def test_without_it_something_is_refused(stage: Stage, right: Right) -> None:
    with stage.without(right) as cluster:
        cluster.api.patience_seconds = 5
        with pytest.raises(SlipwayError, match=_said_without(right)):
            REFUSED[right](cluster)


def _said_without(right: Right) -> str:
    _, resource, verb = right
    if (resource, verb) == ("jobsets", "create"):
        return "may not create jobsets"
    if (resource, verb) == ("persistentvolumeclaims", "delete"):
        return "may not delete volumes"
    return "create pods/exec" if resource == "pods/exec" else f'cannot {verb} resource "{resource}"'


@pytest.mark.parametrize("right", UNSEEN, ids="-".join)
def test_without_it_something_is_not_known(stage: Stage, right: Right, kubernetes: TestCluster) -> None:
    if right[1] == "workloads" and not kubernetes.ours:
        pytest.skip("Kueue is played on a cluster of our own only")
    assert UNSEEN[right](copy.copy(stage.flows))
    with stage.without(right) as cluster:
        assert not UNSEEN[right](cluster)


@pytest.fixture(scope="module")
def stage_with_jobset(stage: Stage, kubernetes: TestCluster, jobset: None) -> Stage:
    """The same, with a gang that is done and one that waits in a queue."""
    flows = connect_as(kubernetes, stage.admin.api, stage.owner, "flows", jobset="always")
    flows.jobs.submit(GANG.model_copy(update={"name": "set-done"}))
    flows.jobs.submit(GANG.model_copy(update={"name": "set-waiting", "queue": "team"}))
    wait_until(lambda: flows.jobs.status(["set-done"])["set-done"].state == JobState.COMPLETED)
    return Stage(stage.owner, stage.admin, flows)


@pytest.mark.alone
@pytest.mark.parametrize("right", REFUSED_WITH_JOBSET, ids="-".join)
def test_without_it_something_is_refused_where_jobset_is(stage_with_jobset: Stage, right: Right) -> None:
    with stage_with_jobset.without(right) as cluster, pytest.raises(SlipwayError, match=_said_without(right)):
        REFUSED_WITH_JOBSET[right](cluster)


@pytest.mark.alone
def test_a_jobset_that_is_not_ours_to_make_any_more_is_not_passed_over(stage: Stage, stage_with_jobset: Stage) -> None:
    """As if it was gone: its run would be started beside it, as a plain Job."""
    waiting = GANG.model_copy(update={"name": "set-waiting", "queue": "team"})
    with stage.without((*JOBSETS, "create")) as cluster:  # whose settings leave it to the cluster
        for look in (lambda: cluster.jobs.find({}), lambda: cluster.jobs.submit(waiting)):
            with pytest.raises(SlipwayError, match=r"set-waiting-n-0.* are of JobSets.* may not create jobsets"):
                look()
    assert stage.admin.api.find(Place(stage.owner).job("set-waiting")) is None
    assert stage_with_jobset.flows.jobs.submit(waiting).live
