import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.pod import snapshots
from tasks.pod.errors import NotThereError
from tasks.pod.hub import UnreachableError
from tasks.pod.layout import Layout
from tasks.pod.verify import verify
from tests.deployments.hub.faulty import FaultyHub
from tests.tasks.pod.staging.test_snapshots import SHARD, files_below, hf

Pinned = Callable[..., dict[str, Any]]


def _damage(path: Path) -> None:
    """Other bytes, same size, same times: what no stat tells."""
    status = path.stat()
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(status.st_size // 2)
        file.write(b"\xff\x00\xff\x00")
    path.chmod(0o444)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_what_is_good_is_read_and_left_alone(layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned) -> None:
    snapshots.stage(layout, pinned())
    hub.served.clear()

    found = verify(layout, pinned() | {"repair": True})

    assert found == {"files": len(files_below(served)), "bytes": found["bytes"], "bad": []}
    assert not hub.served


def test_only_what_is_bad_is_replaced(layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned) -> None:
    path = layout.root / snapshots.stage(layout, pinned())["path"]
    _damage(path / SHARD)
    (path / "tokenizer").chmod(0o755)
    (path / "tokenizer" / "vocab.json").unlink()
    kept = (path / "config.json").stat().st_ino
    hub.served.clear()

    found = verify(layout, pinned() | {"repair": True})

    assert [(bad["path"], bad["why"]) for bad in found["bad"]] == [
        (SHARD, "has other bytes than were staged"),
        ("tokenizer/vocab.json", "is missing"),
    ]
    assert files_below(path) == files_below(served)
    assert sum(hub.served.values()) == sum((served / bad["path"]).stat().st_size for bad in found["bad"])
    assert (path / "config.json").stat().st_ino == kept
    assert hf(layout.hub, "verify", "org/tiny", "--revision", path.name).returncode == 0
    assert verify(layout, pinned())["bad"] == []


def test_without_repair_it_only_tells(layout: Layout, pinned: Pinned) -> None:
    path = layout.root / snapshots.stage(layout, pinned())["path"]
    _damage(path / SHARD)
    before = (path / SHARD).read_bytes()

    found = verify(layout, pinned())

    assert [bad["repaired"] for bad in found["bad"]] == [False]
    assert (path / SHARD).read_bytes() == before


def test_a_damaged_file_that_revisions_share_is_repaired_in_all_of_them(
    layout: Layout, served: Path, pinned: Pinned
) -> None:
    first = layout.root / snapshots.stage(layout, pinned())["path"]
    (served / "README.md").write_text("# newer\n")
    second = layout.root / snapshots.stage(layout, pinned())["path"]
    _damage(first / SHARD)
    assert (first / SHARD).stat().st_ino == (second / SHARD).stat().st_ino

    verify(layout, pinned() | {"repair": True})

    assert (first / SHARD).read_bytes() == (second / SHARD).read_bytes() == (served / SHARD).read_bytes()
    assert (first / SHARD).stat().st_ino == (second / SHARD).stat().st_ino


def test_a_repair_that_the_hub_refuses_leaves_what_is_good(
    layout: Layout, pinned: Pinned, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = pinned()
    path = layout.root / snapshots.stage(layout, asked)["path"]
    _damage(path / SHARD)
    good = (path / "config.json").read_bytes()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("tasks.pod.fetch._FRUITLESS", 1)

    with pytest.raises(UnreachableError):
        verify(layout, asked | {"repair": True})

    assert (path / "config.json").read_bytes() == good


def test_what_is_not_staged_can_not_be_verified(layout: Layout, pinned: Pinned) -> None:
    with pytest.raises(NotThereError):
        verify(layout, pinned())


def test_a_lost_listing_is_written_again(layout: Layout, pinned: Pinned) -> None:
    path = layout.root / snapshots.stage(layout, pinned())["path"]
    shutil.rmtree(path.parent.parent / "trees")

    verify(layout, pinned() | {"repair": True})

    assert hf(layout.hub, "verify", "org/tiny", "--revision", path.name).returncode == 0
