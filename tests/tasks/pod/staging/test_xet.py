"""Staging over Xet: the real hf_xet, reading from a server that has xorbs."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.pod import snapshots
from tasks.pod.errors import ChangedError
from tasks.pod.layout import Layout
from tasks.pod.resolve import resolve
from tests.deployments.hub.faulty import Cut, FaultyHub, Status, WrongBytes
from tests.tasks.pod.staging.conftest import Programs, write_model
from tests.tasks.pod.staging.test_snapshots import files_below, hf

Pinned = Callable[..., dict[str, Any]]
SHARDS = [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]


@pytest.fixture(autouse=True)
def xet(hub: FaultyHub, served: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Three shards of 3 MB, each in three xorbs."""
    write_model(served, size=3_000_000)
    hub.over_xet.update(SHARDS)
    monkeypatch.setenv("HF_XET_CACHE", str(tmp_path / "xet"))
    monkeypatch.setenv("HF_XET_LOG_DEST", str(tmp_path / "xet.log"))


def asked(layout: Layout, pinned: Pinned) -> dict[str, Any]:
    wanted = pinned()
    return wanted | {"files": resolve(layout, wanted | {"revision": "main"})["files"]}


def over_http(hub: FaultyHub) -> int:
    return sum(hub.bytes_of(shard) for shard in SHARDS)


def over_xet(hub: FaultyHub) -> int:
    return sum(count for path, count in hub.served.items() if path.startswith("/xet/xorbs/"))


def test_a_snapshot_is_staged_over_xet_and_proven(
    programs: Programs, layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned
) -> None:
    wanted = asked(layout, pinned)
    assert sum("xet_hash" in file for file in wanted["files"]) == 3

    answer = programs.run("snapshots.stage", wanted)["ok"]

    path = layout.root / answer["path"]
    assert files_below(path) == files_below(served)
    sizes = sum((served / shard).stat().st_size for shard in SHARDS)
    assert over_http(hub) == 0
    assert sizes < over_xet(hub) < sizes * 1.01
    assert answer["fetched_bytes"] == answer["bytes"]
    verified = hf(layout.hub, "verify", "org/tiny", "--revision", wanted["commit"], "--fail-on-missing-files")
    assert verified.returncode == 0, verified.stderr


def test_a_killed_download_goes_on_where_it_was(
    programs: Programs, layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned
) -> None:
    wanted = asked(layout, pinned)
    hub.rate = 500_000  # bytes a second: time enough for a busy machine to look
    process = programs.start("snapshots.stage", wanted)
    until = time.monotonic() + 200
    parts = layout.ours / "staging"
    while sum(part.stat().st_size for part in parts.glob("*/parts/*")) < 1_000_000:
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {part.name: part.stat().st_size for part in parts.glob("*/parts/*")}
    assert sum(kept.values()) >= 1_000_000
    hub.rate = None
    before = over_xet(hub)

    answer = programs.run("snapshots.stage", wanted)["ok"]

    assert files_below(layout.root / answer["path"]) == files_below(served)
    whole = sum((served / shard).stat().st_size for shard in SHARDS)
    chunks = len(kept) * (64 << 10)  # a chunk that had come in part is sent whole
    assert over_xet(hub) - before < (whole - sum(kept.values()) + chunks) * 1.01 + 1000
    assert over_http(hub) == 0


@pytest.mark.parametrize("place", ["xet-read-token", "/xet/v1/reconstructions", "/xet/xorbs/"])
def test_where_it_fails_plain_http_goes_on(
    layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned, place: str, capfd: pytest.CaptureFixture[str]
) -> None:
    wanted = asked(layout, pinned)
    hub.always[place] = Status(403)

    path = layout.root / snapshots.stage(layout, wanted)["path"]

    assert files_below(path) == files_below(served)
    assert over_http(hub) > 0
    assert "going on over plain HTTP" in capfd.readouterr().err


def test_what_came_over_xet_before_it_failed_is_not_fetched_again(
    layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned
) -> None:
    wanted = asked(layout, pinned) | {"allow": [SHARDS[0], "config.json"]}
    hub.rate = 10_000_000
    last = hub.xet.xorbs_of(hub.xet.add(served / SHARDS[0]))[-1]
    hub.always[last] = Status(403)

    snapshots.stage(layout, wanted)

    assert 0 < hub.bytes_of(SHARDS[0]) < (served / SHARDS[0]).stat().st_size
    assert any(asked_range and asked_range != "bytes=0-" for asked_range, _ in hub.gets(SHARDS[0]))


def test_a_cut_connection_is_mended(layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned) -> None:
    hub.fail("/xet/xorbs/", Cut(100_000))

    path = layout.root / snapshots.stage(layout, asked(layout, pinned))["path"]

    assert files_below(path) == files_below(served)


def test_wrong_bytes_over_xet_are_fetched_again_over_http(
    layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned
) -> None:
    wanted = asked(layout, pinned)
    hub.always["/xet/xorbs/"] = WrongBytes()

    path = layout.root / snapshots.stage(layout, wanted)["path"]

    assert files_below(path) == files_below(served)
    assert over_http(hub) == sum((served / shard).stat().st_size for shard in SHARDS)

    hub.always["resolve"] = WrongBytes()
    write_model(served, seed=1, size=3_000_000)
    with pytest.raises(ChangedError, match="nothing was published"):
        snapshots.stage(layout, asked(layout, pinned))


def test_a_hub_that_only_claims_to_have_xet_is_lived_with(
    layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned
) -> None:
    wanted = asked(layout, pinned)
    hub.over_xet.clear()
    hub.claims_xet.update(SHARDS)

    path = layout.root / snapshots.stage(layout, wanted)["path"]

    assert files_below(path) == files_below(served)
    assert any("xet-read-token" in path for _, path, _, _ in hub.requests)


def test_it_can_be_turned_off(programs: Programs, layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned) -> None:
    programs.env["HF_HUB_DISABLE_XET"] = "1"

    answer = programs.run("snapshots.stage", asked(layout, pinned))["ok"]

    assert files_below(layout.root / answer["path"]) == files_below(served)
    assert over_xet(hub) == 0
