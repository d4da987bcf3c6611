"""The local cluster with its files and processes in view."""

from pathlib import Path

import pytest

from tests.blocks.clusters.bench import Bench
from tests.blocks.clusters.local.bench import LocalBench


@pytest.fixture
def local(bench: Bench, tmp_path: Path) -> LocalBench:
    found = LocalBench(bench.cluster, bench.connect, bench.contains)
    found.root = tmp_path / "cluster"
    return found
