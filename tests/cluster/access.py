"""The Kubernetes cluster that tests run on: the one-node one of this folder, or one that is named.

`SLIPWAY_TEST_KUBECONFIG` names a kubeconfig; then `SLIPWAY_TEST_IMAGE` names our image there, and
`SLIPWAY_TEST_STORAGE_CLASS` a class. Otherwise `up` starts the one-node cluster, or finds that it runs.
"""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from blocks.clusters.kubernetes.cluster import KubernetesCluster
from blocks.clusters.kubernetes.nodes import node_capacity
from blocks.clusters.kubernetes.place import JOBSETS, NODES
from blocks.clusters.kubernetes.settings import KubernetesSettings
from blocks.clusters.port import Capacity

HERE = Path(__file__).parent
_NODE = "127.0.0.1"
NAMESPACES = "/api/v1/namespaces"


@dataclass(frozen=True)
class TestCluster:
    """How to reach the cluster under test.

    Args:
        ours: started by `up`, so that tests may stop parts of it.
    """

    __test__ = False

    kubeconfig: str
    image: str
    storage_class: str
    ours: bool

    def settings(self, **changes: Any) -> KubernetesSettings:
        asked: dict[str, Any] = {
            "image": self.image,
            "kubeconfig": self.kubeconfig,
            "storage_class": self.storage_class,
            "access_mode": "ReadWriteOnce",
            "poll_seconds": 1,
            **changes,
        }
        return KubernetesSettings(**asked)

    def connect(self, owner: str, **changes: Any) -> KubernetesCluster:
        return KubernetesCluster(self.settings(**changes), owner=owner)

    def source(self, owner: str, **changes: Any) -> str:
        """Python source that binds `cluster` to what `connect` gives, for another process."""
        return (
            "from blocks.clusters.kubernetes.cluster import KubernetesCluster\n"
            "from blocks.clusters.kubernetes.settings import KubernetesSettings\n"
            f"settings = KubernetesSettings.model_validate({self.settings(**changes).model_dump()!r})\n"
            f"cluster = KubernetesCluster(settings, owner={owner!r})"
        )

    def capacity(self) -> Capacity:
        """What its one node can give to pods."""
        (node,) = self.connect("default").api.items(NODES)
        return node_capacity(node, self.settings())


def start() -> TestCluster:
    """The named cluster, or the one-node one, started if it does not run."""
    storage_class = os.environ.get("SLIPWAY_TEST_STORAGE_CLASS", "test-hostpath")
    if named := os.environ.get("SLIPWAY_TEST_KUBECONFIG"):
        return TestCluster(named, os.environ["SLIPWAY_TEST_IMAGE"], storage_class, ours=False)
    kubeconfig, image = up()
    return TestCluster(kubeconfig, image, storage_class, ours=True)


def is_there() -> bool:
    """Whether one is named, or the one-node one runs."""
    look = 'here=$0; source "$here/settings"; runs kube-apiserver && runs node'
    return "SLIPWAY_TEST_KUBECONFIG" in os.environ or not subprocess.run(["bash", "-c", look, HERE]).returncode


def up() -> tuple[str, str]:
    """Start what of the one-node cluster does not run; its kubeconfig and our image there."""
    done = subprocess.run(
        [HERE / "up"], env={**os.environ, "PYTHON": sys.executable}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the test cluster did not start: {done.stderr[-2000:]}")
    kubeconfig, image = done.stdout.split()[-2:]
    return kubeconfig, image


def flows_image(cluster: TestCluster) -> str:
    """The image of the server, workers and flows there: `SLIPWAY_TEST_FLOWS_IMAGE`, or one that is made."""
    if named := os.environ.get("SLIPWAY_TEST_FLOWS_IMAGE"):
        return named
    if not cluster.ours:
        pytest.skip("SLIPWAY_TEST_FLOWS_IMAGE does not name the image of workers on that cluster")
    argv = ["bash", HERE / "image", "flows"]
    made = subprocess.run(
        argv, env={**os.environ, "PYTHON": sys.executable}, capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise RuntimeError(f"the image of workers was not made: {made.stderr[-2000:]}")
    return made.stdout.split()[-1]


def kubectl_of(cluster: TestCluster) -> list[str]:
    """How `kubectl` is called as the cluster's administrator."""
    beside = Path(cluster.kubeconfig).parent.parent / "bin" / "kubectl"
    program = str(beside) if beside.exists() else shutil.which("kubectl")
    if program is None:
        pytest.skip("there is no kubectl")
    return [program, "--kubeconfig", cluster.kubeconfig]


@contextlib.contextmanager
def jobset_installed(cluster: TestCluster) -> Iterator[None]:
    """JobSet is there for the time of the block: on the one-node cluster it is installed and taken away again."""
    if not cluster.ours:
        if cluster.connect("default").api.find(JOBSETS) is None:
            pytest.skip("JobSet is not installed on that cluster")
        yield
        return
    if os.environ.get("SLIPWAY_TEST_JOBSET") == "none":
        pytest.skip("JobSet could not be built here")
    with _installed("jobset"):
        yield


@contextlib.contextmanager
def kueue_installed(cluster: TestCluster) -> Iterator[None]:
    """Kueue, and JobSet beside it, are there for the time of the block, where Kueue's controller was built."""
    if not cluster.ours:
        pytest.skip("that cluster is not ours to make queues on")
    if os.environ.get("SLIPWAY_TEST_KUEUE") == "none":
        pytest.skip("Kueue is left out here: SLIPWAY_TEST_KUEUE is none")
    built = (Path(cluster.kubeconfig).parent.parent / "bin").glob("kueue-*")
    if not any(path.is_file() and path.suffix != ".part" for path in built):
        pytest.skip("Kueue's controller was not built: tests/cluster/build kueue does it")
    with jobset_installed(cluster), _installed("kueue"):
        yield


@contextlib.contextmanager
def _installed(what: str) -> Iterator[None]:
    try:
        _install(what, "up")
        yield
    finally:
        _install(what, "down")


def _install(what: str, verb: str) -> None:
    argv, env = ["bash", HERE / what, verb], {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{what} {verb} on the test cluster: {done.stderr[-2000:]}")


@contextlib.contextmanager
def jobset_taken_away(cluster: TestCluster) -> Iterator[None]:
    """JobSet, which is installed, is not for the time of the block."""
    _install("jobset", "down")
    try:
        yield
    finally:
        _install("jobset", "up")


@contextlib.contextmanager
def jobset_controller_away(cluster: TestCluster) -> Iterator[None]:
    """JobSet's controller is killed, with its webhooks, and started again after the block."""
    os.kill(_pid(cluster, "jobset"), signal.SIGKILL)
    try:
        yield
    finally:
        _install("jobset", "up")


def _pid(cluster: TestCluster, program: str) -> int:
    return int((Path(cluster.kubeconfig).parent.parent / "run" / f"{program}.pid").read_text())


@contextlib.contextmanager
def api_server_away(cluster: TestCluster) -> Iterator[None]:
    """The API server of the one-node cluster is killed, and started again after the block."""
    os.kill(_pid(cluster, "kube-apiserver"), signal.SIGKILL)
    try:
        yield
    finally:
        up()


@contextlib.contextmanager
def kubelet_away(cluster: TestCluster, *pods: str) -> Iterator[None]:
    """The one node does not answer for the time of the block, and the processes of some pods have died with it.

    Args:
        pods: their UIDs.
    """
    programs = Path(cluster.kubeconfig).parent.parent / "bin"
    (kubelet,) = _processes("cmdline", f"{programs / 'kubelet'}\0")
    os.kill(kubelet, signal.SIGSTOP)
    try:
        for uid in pods:
            kill_processes_of(uid)
        yield
    finally:
        os.kill(kubelet, signal.SIGCONT)
        await_node(cluster)


def kill_processes_of(pod: str) -> None:
    """Of a pod on the one node, by its UID."""
    for pid in _processes("cgroup", f"/pod{pod}/"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def a_second_node(cluster: TestCluster) -> Iterator[None]:
    """A Node without a machine, which takes no pods and says that it is well: Kubernetes takes pods from a node that
    does not answer only where another one does."""
    api, name = cluster.connect("default").api, "second"
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40}
    metadata: dict[str, Any] = {"metadata": {"name": name}}
    over = threading.Event()

    def now() -> str:
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def live() -> None:
        while not over.wait(3):
            api.patch(f"{leases}/{name}", {"spec": {"renewTime": now()}})

    well = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "it says so"}
    living = threading.Thread(target=live)
    api.post(NODES, {"apiVersion": "v1", "kind": "Node", **metadata, "spec": {"unschedulable": True}})
    try:
        api.patch(
            f"{NODES}/{name}/status", {"status": {"conditions": [well | {"lastTransitionTime": now()[:19] + "Z"}]}}
        )
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **metadata}
        api.post(leases, {**lease, "spec": {**spec, "renewTime": now()}})
        living.start()
        yield
    finally:
        over.set()
        api.delete(f"{NODES}/{name}")
        living.join()
        api.delete(f"{leases}/{name}")


@contextlib.contextmanager
def node_away(cluster: TestCluster) -> Iterator[None]:
    """All that runs on the one node is killed, and the node is started again after the block."""
    os.kill(_pid(cluster, "node"), signal.SIGKILL)
    try:
        yield
    finally:
        up()
        await_node(cluster)


def await_node(cluster: TestCluster) -> None:
    """Wait until the one node takes pods."""
    api = cluster.connect("default").api
    until = time.monotonic() + 300
    while True:
        node = api.find(f"{NODES}/{_NODE}") or {"status": {"conditions": ()}, "spec": {}}
        ready = [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"] == ["True"]
        if ready and not node["spec"].get("taints"):
            return
        if time.monotonic() > until:
            raise RuntimeError(f"the node does not come back: {node['status']['conditions']}")
        time.sleep(0.5)


def _processes(file: str, sign: str) -> list[int]:
    """Those of whom a file in /proc has that sign."""
    found = []
    for path in Path("/proc").glob(f"[0-9]*/{file}"):
        with contextlib.suppress(OSError):
            if sign.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


@contextlib.contextmanager
def owner_of_its_own(cluster: TestCluster) -> Iterator[str]:
    """A namespace that is deleted after use, with all that is in it."""
    owner = f"test-{secrets.token_hex(4)}"
    api = cluster.connect(owner).api
    api.post(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": owner}})
    while api.find(f"{NAMESPACES}/{owner}/serviceaccounts/default") is None:  # pods are refused until it is there
        time.sleep(0.1)
    try:
        yield owner
    finally:
        for pod in api.items(f"{NAMESPACES}/{owner}/pods"):
            api.delete(f"{NAMESPACES}/{owner}/pods/{pod['metadata']['name']}", grace_seconds=0)
        api.delete(f"{NAMESPACES}/{owner}")
