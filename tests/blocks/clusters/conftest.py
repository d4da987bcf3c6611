"""The clusters that the shared suite runs against."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from blocks.clusters.local.cluster import LocalCluster
from blocks.clusters.port import Capacity, Cluster
from tests.blocks.clusters.bench import GI, Bench
from tests.cluster.access import TestCluster, owner_of_its_own


@pytest.fixture(params=["local", pytest.param("kubernetes", marks=pytest.mark.cluster)])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    found: Bench = request.getfixturevalue(f"{request.param}_bench")
    yield found


@pytest.fixture
def local_bench(tmp_path: Path) -> Iterator[Bench]:
    root = tmp_path / "cluster"
    capacity = Capacity(cpus=8, memory_bytes=64 * GI, gpus={"h100": 2})
    cluster = LocalCluster(root, cpus=8, memory_bytes=64 * GI, gpus={"h100": 2})
    connect = (
        "from blocks.clusters.local.cluster import LocalCluster\n"
        f"cluster = LocalCluster(Path({str(root)!r}), cpus=8, memory_bytes={64 * GI}, gpus={{'h100': 2}})"
    )
    yield Bench(cluster, connect, contains=False, capacity=capacity)
    for status in cluster.jobs.find({}):
        if status.live:
            cluster.jobs.stop(status.name, grace_seconds=0)


@pytest.fixture
def kubernetes_bench(kubernetes: TestCluster) -> Iterator[Bench]:
    """A namespace of its own on the test cluster."""
    with owner_of_its_own(kubernetes) as owner:
        cluster = kubernetes.connect(owner)
        yield Bench(cluster, kubernetes.source(owner), contains=True, capacity=kubernetes.capacity(), look_seconds=0.3)


@pytest.fixture
def cluster(bench: Bench) -> Cluster:
    return bench.cluster
