"""Two gigabytes there and back, cut wherever a transfer can be: too long for every day (`-m "cluster and slow"`)."""

import hashlib
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from blocks.clusters.kubernetes.cluster import KubernetesCluster
from tests.cluster.access import TestCluster
from tests.flows.cli.conftest import Slipway
from tests.kubernetes.cut import Way, way_to

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1500)]
MIB = 1 << 20
LARGE, SMALL = 3, 2048
SIZE = LARGE * 640 * MIB + SMALL * 64 * 1024


@pytest.fixture
def way(kubernetes: TestCluster) -> Iterator[Way]:
    if not kubernetes.ours:
        pytest.skip("the way to the API server of a cluster that was named is not ours to cut")
    with way_to(6443) as way:
        yield way


@pytest.fixture
def slipway(kubernetes: TestCluster, owner: str, way: Way, tmp_path: Path) -> Slipway:
    """The command line, which reaches the API server by a way that can be cut, and a volume `shelf`."""
    there = Path(kubernetes.kubeconfig).read_text().replace("127.0.0.1:6443", f"127.0.0.1:{way.port}")
    (tmp_path / "kubeconfig").write_text(there)
    (tmp_path / "slipway.toml").write_text(
        'default_cluster = "team"\n\n[clusters.team]\nkind = "kubernetes"\n'
        f'owner = "{owner}"\nimage = "{kubernetes.image}"\nkubeconfig = "{tmp_path}/kubeconfig"\n'
        f'storage_class = "{kubernetes.storage_class}"\naccess_mode = "ReadWriteOnce"\npoll_seconds = 0.5\n'
    )
    slipway = Slipway(tmp_path)
    assert slipway("volumes", "create", "shelf", "--size", "5Gi").code == 0
    return slipway


def test_a_tree_of_two_gigabytes_survives_every_kind_of_cut(slipway: Slipway, way: Way) -> None:
    tree = slipway.folder / "tree"
    _plant(tree)
    cluster = slipway.cluster
    assert isinstance(cluster, KubernetesCluster)

    begun = way.sent
    put = slipway.start("volumes", "put", "shelf", "tree", "/there")
    _until(lambda: way.sent - begun > SIZE // 4, put)
    put.kill()  # the command itself
    put.communicate()
    put = slipway.start("volumes", "put", "shelf", "tree", "/there")
    _until(lambda: way.sent - begun > SIZE // 2, put)
    way.cut()  # its connection
    _until(lambda: way.sent - begun > SIZE * 3 // 4, put)
    for session in cluster.sessions.list():  # the pod that it is connected to
        if not session.internal:
            cluster.api.delete(f"/api/v1/namespaces/{cluster.owner}/pods/{session.id}", grace_seconds=0)
    _, err = put.communicate(timeout=600)
    assert put.returncode == 0, err
    assert err.count("it goes on where it was") >= 2
    assert way.sent - begun < SIZE * 1.2  # it did go on, and did not begin anew

    begun = way.received
    get = slipway.start("volumes", "get", "shelf", "there", "back")
    _until(lambda: way.received - begun > SIZE // 2, get)
    way.cut()
    _, err = get.communicate(timeout=600)
    assert get.returncode == 0, err
    assert way.received - begun < SIZE * 1.2
    assert _hashes(slipway.folder / "back") == _hashes(tree)


def _plant(tree: Path) -> None:
    chance = random.Random(8)
    (tree / "small").mkdir(parents=True)
    for number in range(LARGE):
        with (tree / f"large-{number}").open("wb") as file:
            for _ in range(640):
                file.write(chance.randbytes(MIB))
    for number in range(SMALL):
        (tree / "small" / f"{number:04}").write_bytes(chance.randbytes(64 * 1024))


def _hashes(tree: Path) -> dict[str, str]:
    found = {}
    for path in sorted(path for path in tree.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            found[str(path.relative_to(tree))] = hashlib.file_digest(file, "sha256").hexdigest()
    assert len(found) == LARGE + SMALL
    return found


def _until(look: Callable[[], bool], process: "Popen[str]") -> None:
    until = time.monotonic() + 600
    while not look():
        assert time.monotonic() < until
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
