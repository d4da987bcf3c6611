"""Snapshots and datasets that no run refers to are reported, and removed only when told to, without a trace."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.pod import datasets, retention, runs, snapshots
from tasks.pod.layout import Layout
from tests.tasks.pod.staging.conftest import Programs

Pinned = Callable[..., dict[str, Any]]
TOLD = {"unreferenced": True, "grace_seconds": 0}


@pytest.fixture
def furnished(layout: Layout, served: Path, pinned: Pinned, tmp_path: Path) -> Layout:
    """Two revisions of a model that share files, and two versions of a dataset; run `r` reads the newer ones."""
    snapshots.stage(layout, pinned())
    (served / "README.md").write_text("# another revision\n")
    newer = snapshots.stage(layout, pinned())["path"]
    for text in ("one", "two"):
        (tmp_path / "source").mkdir(exist_ok=True)
        (tmp_path / "source/rows.jsonl").write_text(f'{{"text": "{text}"}}\n')
        arguments = {"name": "d", "version": text, "source": {"kind": "folder", "path": str(tmp_path / "source")}}
        data = datasets.stage(layout, arguments)["path"]
    claim(layout, "r", newer, data)
    return layout


def claim(layout: Layout, run: str, weights: str, dataset: str) -> None:
    plan = {
        "run": run,
        "max_steps": 1,
        "created_at": runs.now(),
        "trainer": {"kind": "tiny", "checkpoint_format": None, "checkpoints": "checkpoints", "metrics": "m.jsonl"},
        "resolved": {"weights": {"path": weights}, "dataset": {"path": dataset}, "source": None},
    }
    runs.claim(layout, {"run": run, "plan": plan})


def snapshot_paths(layout: Layout) -> set[str]:
    return {found["path"] for found in snapshots.list_staged(layout, {})["snapshots"]}


def test_they_are_reported_with_what_no_other_link_keeps(furnished: Layout) -> None:
    before = snapshot_paths(furnished)
    found = retention.prune(furnished, {"grace_seconds": 0})
    assert [(item["kind"], item["deleted"]) for item in found["unreferenced"]] == [
        ("snapshot", False),
        ("dataset", False),
    ]
    snapshot = found["unreferenced"][0]
    assert snapshot["bytes"] > 1_000_000 > snapshot["freed"] > 0  # the shards are the newer revision's too
    assert found["freed_bytes"] == 0
    assert snapshot_paths(furnished) == before
    assert not retention.plan(furnished, {})["unreferenced"], "within the grace time nothing is even reported"


def test_told_to_it_removes_them_and_what_runs_refer_to_stays(furnished: Layout) -> None:
    (kept,) = [plan["plan"]["resolved"]["weights"]["path"] for plan in runs.list_runs(furnished, {})["runs"]]
    planned = retention.plan(furnished, TOLD)
    found = retention.prune(furnished, TOLD)
    assert planned["freed_bytes"] == found["freed_bytes"] > 0
    assert snapshot_paths(furnished) == {kept}
    assert [d["version"] for d in datasets.list_staged(furnished, {})["datasets"]] == ["two"]
    assert not list(furnished.trash.iterdir())
    assert retention.prune(furnished, TOLD)["unreferenced"] == []
    code = "from huggingface_hub import snapshot_download as s; print(s('org/tiny', revision='main'))"
    env = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(furnished.hub)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip().endswith(kept), done.stderr


def test_the_last_snapshot_leaves_no_repository_behind(layout: Layout, pinned: Pinned) -> None:
    staged = snapshots.stage(layout, pinned())
    assert staged["staged"]
    retention.prune(layout, TOLD)
    assert not list(layout.hub.glob("models--*"))
    assert snapshots.stage(layout, pinned())["staged"]


@pytest.mark.parametrize("moment", ["refs", "renamed", "tree"])
def test_a_killed_removal_is_finished_by_the_next(layout: Layout, pinned: Pinned, moment: str) -> None:
    snapshots.stage(layout, pinned())
    (manifest,) = (layout.ours / "snapshots").glob("*/*.json")
    home, commit = layout.repo("model", "org/tiny"), pinned()["commit"]
    (home / "refs/main").unlink()
    if moment in ("renamed", "tree"):
        (home / "snapshots" / commit).chmod(0o755)
        (home / "snapshots" / commit).rename(layout.trash.parent / "prune-was-killed")
        layout.trash.mkdir(exist_ok=True)
        (layout.trash.parent / "prune-was-killed").rename(layout.trash / "prune.killed.0")
    if moment == "tree":
        (home / "trees" / f"{commit}.json").unlink()
    retention.prune(layout, TOLD)
    assert not manifest.exists() and not home.exists() and not list(layout.trash.iterdir())


def test_one_that_is_being_staged_again_is_left_alone(furnished: Layout, programs: Programs, pinned: Pinned) -> None:
    from tasks.pod.area import staging_area
    from tasks.pod.staging import snapshot_identity

    (old,) = [i["path"] for i in retention.plan(furnished, TOLD)["unreferenced"] if i["kind"] == "snapshot"]
    with staging_area(furnished, snapshot_identity("model", "org/tiny", old.rpartition("/")[2])):
        retention.prune(furnished, TOLD)
    assert old in snapshot_paths(furnished)
