"""The clusters that the shared suite runs against."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from blocks.clusters.local.cluster import LocalCluster
from blocks.clusters.port import Cluster
from tests.blocks.clusters.bench import GI, Bench


@pytest.fixture(params=["local"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    assert request.param == "local"
    root = tmp_path / "cluster"
    cluster = LocalCluster(root, cpus=8, memory_bytes=64 * GI, gpus={"h100": 2})
    settings = f"Path({str(root)!r}), cpus=8, memory_bytes={64 * GI}, gpus={{'h100': 2}}"
    yield Bench(cluster, f"LocalCluster({settings})", contains=False)
    for status in cluster.jobs.find({}):
        if status.live:
            cluster.jobs.stop(status.name, grace_seconds=0)


@pytest.fixture
def cluster(bench: Bench) -> Cluster:
    return bench.cluster
