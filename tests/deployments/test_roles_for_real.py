"""The shipped roles on a real API server: enough for everything that flows and people do, and nothing more."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blocks.clusters.errors import SlipwayError
from blocks.clusters.job import Job, JobState, Mount
from blocks.clusters.kubernetes.cluster import KubernetesCluster
from tests.cluster.access import NAMESPACES, TestCluster, kubectl_of, owner_of_its_own
from tests.cluster.accounts import SHIPPED, connect_as, give, make_account, rights, rules, used

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
GI = 2**30


@pytest.fixture
def owner(kubernetes: TestCluster) -> Iterator[str]:
    with owner_of_its_own(kubernetes) as name:
        yield name


@pytest.fixture
def flows(kubernetes: TestCluster, owner: str) -> Iterator[KubernetesCluster]:
    """A namespace as an account with the shipped roles sees it."""
    admin = kubernetes.connect(owner).api
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    make_account(admin, owner, "flows", rules("owner/roles.yaml", "slipway"))
    sight = f"slipway-sight-{owner}"
    give(admin, rbac, "ClusterRole", owner, "flows", sight, rules("sight/sight.yaml", "slipway-sight"))
    yield connect_as(kubernetes, admin, owner, "flows")
    admin.delete(f"{rbac}/clusterroles/{sight}")
    admin.delete(f"{rbac}/clusterrolebindings/{sight}")


def everything(cluster: KubernetesCluster) -> None:
    """What flows and people do, once each, but for deleting volumes."""
    sleep = ("python", "-c", "import time; print('up', flush=True); time.sleep(600)")
    cluster.volumes.create("shelf", GI)
    wait_until(lambda: cluster.volumes.get("shelf").status == "ready")
    cluster.volumes.grow("shelf", 2 * GI)
    assert [volume.name for volume in cluster.volumes.list()] == ["shelf"]
    job = Job(name="one", request_hash="x", command=sleep, cpus=0.1, labels={"a": "b"}, mounts=(Mount(volume="shelf"),))
    assert cluster.preflight(job, {"new": GI}) == []
    assert cluster.call("shelf", "volume.probe", {"size_bytes": 2**30}, writable=True)["free_bytes"]
    cluster.jobs.submit(job)
    assert any(status.state == JobState.RUNNING for status in cluster.jobs.watch({"a": "b"}, 60))
    wait_until(lambda: list(cluster.jobs.logs("one")) == ["up"])
    assert cluster.jobs.stop("one", grace_seconds=0).state == JobState.STOPPED
    cluster.jobs.delete("one")
    cluster.jobs.submit(Job(name="gang", request_hash="x", command=("true",), nodes=2, cpus=0.1))
    session = cluster.sessions.open("shelf", writable=False)
    terminal = cluster.sessions.attach(session.id, ["echo", "hello"], None)
    assert terminal.read() == (1, b"hello\n")
    assert terminal.read() is None and terminal.wait() == 0
    cluster.sessions.leave(session)
    wait_until(lambda: not cluster.jobs.status(["gang"])["gang"].live)
    cluster.jobs.submit(Job(name="stopped", request_hash="x", command=sleep, nodes=2, cpus=0.1))
    assert cluster.jobs.stop("stopped", grace_seconds=0).state == JobState.STOPPED
    cluster.jobs.delete("stopped")
    cluster.jobs.submit(Job(name="odd", request_hash="x", command=("true",), cpus=0.1, image="Not An Image"))
    wait_until(lambda: not cluster.jobs.status(["odd"])["odd"].live)
    late = cluster.volumes.create("late", GI).name
    wait_until(lambda: cluster.volumes.get(late).status == "ready")


def wait_until(look: Any) -> None:
    until = time.monotonic() + 240
    while not look():
        assert time.monotonic() < until
        time.sleep(0.3)


@pytest.mark.parametrize("way", ["job", pytest.param("jobset", marks=pytest.mark.alone)])
def test_the_role_of_flows_is_enough_and_each_of_its_rights_is_used(
    flows: KubernetesCluster, kubernetes: TestCluster, owner: str, way: str, request: pytest.FixtureRequest
) -> None:
    if way == "jobset":
        request.getfixturevalue("jobset")
    everything(flows)
    if not kubernetes.ours:
        pytest.skip("whose log of requests is not ours to read")
    given = rights(rules("owner/roles.yaml", "slipway"), rules("sight/sight.yaml", "slipway-sight"))
    taken = used(kubernetes, f"system:serviceaccount:{owner}:flows")
    # Exec is a GET that is held against create as well, of which no log has a line.
    # Events are only asked for where nothing else says why something waits, and Workloads where it waits in a queue.
    unseen = {("", "pods/exec", "create"), ("", "events", "list"), ("kueue.x-k8s.io", "workloads", "list")}
    unused = {right for right in given if way != "jobset" and right[1] == "jobsets"}
    assert given - taken - unseen == unused
    assert taken - given <= {("authorization.k8s.io", "selfsubjectaccessreviews", "create")}


def test_flows_can_read_no_secret_and_delete_no_volume(flows: KubernetesCluster, kubernetes: TestCluster) -> None:
    flows.volumes.create("shelf", GI)
    wait_until(lambda: flows.volumes.get("shelf").status == "ready")
    with pytest.raises(SlipwayError, match="may not delete volumes"):
        flows.volumes.delete("shelf")
    with pytest.raises(SlipwayError, match="forbidden"):
        flows.api.get(f"/api/v1/namespaces/{flows.owner}/secrets")
    admin = kubernetes.connect(flows.owner).api
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{flows.owner}"
    give(admin, path, "Role", flows.owner, "flows", "volumes", rules("owner/roles.yaml", "slipway-volumes"))
    time.sleep(0.5)
    flows.volumes.delete("shelf")
    wait_until(lambda: flows.volumes.list() == [])


@pytest.mark.parametrize("part", ["owner", "server", "worker", "sight", "hub"])
def test_what_is_shipped_is_accepted_by_an_api_server(
    kubernetes: TestCluster, owner: str, tmp_path: Path, part: str
) -> None:
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}}
    kubernetes.connect(owner).api.patch(f"{NAMESPACES}/{owner}", label)
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    shipped = os.path.relpath(SHIPPED / part, overlay)
    (overlay / "kustomization.yaml").write_text(f"namespace: {owner}\nresources: [{shipped}]\n")
    made = subprocess.run(
        [*kubectl_of(kubernetes), "apply", "--dry-run=server", "-k", str(overlay)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    warnings = [line for line in made.stderr.splitlines() if "last-applied-configuration" not in line]
    assert warnings == []  # no pod that is less than restricted, either
