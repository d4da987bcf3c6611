"""A volume whose directory a person has moved, with a link in its place."""

from pathlib import Path

import pytest

from blocks.clusters.errors import NotFoundError
from blocks.clusters.local.cluster import LocalCluster
from tests.blocks.clusters.bench import GI, Bench, on_shelf


def test_a_volume_behind_a_link_is_used_and_let_go_of(local_bench: Bench, tmp_path: Path) -> None:
    cluster = local_bench.cluster
    assert isinstance(cluster, LocalCluster)
    cluster.volumes.create("shelf", GI)
    place = cluster.volumes.path("shelf")
    elsewhere = place.rename(tmp_path / "elsewhere")
    place.symlink_to(elsewhere)

    code = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('x')"
    cluster.jobs.submit(local_bench.job("one", code, "/volume/made", mounts=(on_shelf(),)))
    assert local_bench.ended("one").cause == "completed"
    assert cluster.volumes.path("shelf") == elsewhere
    assert [entry["path"] for entry in cluster.call("shelf", "transfer.ls", {"path": "."})["entries"]] == ["made"]
    cluster.volumes.delete("shelf")
    assert (elsewhere / "made").read_text() == "x"
    assert not place.is_symlink()
    with pytest.raises(NotFoundError):
        cluster.volumes.get("shelf")
    assert cluster.volumes.create("shelf", GI)
