"""The local cluster with its files and processes in view."""

from pathlib import Path

import pytest

from tests.blocks.clusters.bench import Bench
from tests.blocks.clusters.local.bench import LocalBench


@pytest.fixture
def local(local_bench: Bench, tmp_path: Path) -> LocalBench:
    found = LocalBench(**vars(local_bench))
    found.root = tmp_path / "cluster"
    return found
