"""What is staged, by whom it is used, and that nothing which is used is taken away."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tasks.pod import catalogue, datasets
from tasks.pod.errors import BadInputError, ChangedError, NotThereError
from tasks.pod.layout import Layout

COMMITS = ("a" * 40, "ab" + "b" * 38)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "volume")
    for number, commit in enumerate(COMMITS):
        _snapshot(layout, commit, staged_at=float(number))
    first, second = (layout.snapshot("model", "org/tiny", commit) for commit in COMMITS)
    os.link(first / "shared.bin", second / "shared.bin")
    _ref(layout, "main", COMMITS[1])
    return layout


def _snapshot(layout: Layout, commit: str, staged_at: float) -> None:
    path = layout.snapshot("model", "org/tiny", commit)
    path.mkdir(parents=True)
    (path / "own.bin").write_bytes(commit.encode() * 200)
    if commit == COMMITS[0]:
        (path / "shared.bin").write_bytes(b"s" * 5000)
    manifest = layout.snapshot_manifest("model", "org/tiny", commit)
    manifest.parent.mkdir(parents=True, exist_ok=True)
    record = {"repo_type": "model", "repo": "org/tiny", "commit": commit, "bytes": 13000, "staged_at": staged_at}
    manifest.write_text(json.dumps(record | {"path": layout.relative(path), "files": [], "lacks": []}))
    trees = layout.repo("model", "org/tiny") / "trees"
    trees.mkdir(exist_ok=True)
    (trees / f"{commit}.json").write_text("{}")
    _ref(layout, f"slipway/{commit}", commit)


def _ref(layout: Layout, name: str, commit: str) -> None:
    ref = layout.repo("model", "org/tiny") / "refs" / name
    ref.parent.mkdir(parents=True, exist_ok=True)
    ref.write_text(commit)


def _run(layout: Layout, name: str, what: str, path: str, *, attempt: bool, ended: bool) -> None:
    home = layout.records(name)
    (home / "attempts").mkdir(parents=True)
    plan = {"run": name, "created_at": "2026-01-01T00:00:00+00:00", "resolved": {what: {"path": path}}}
    plan |= {
        "trainer": {"checkpoint_format": None, "checkpoints": "checkpoints", "metrics": "m.jsonl"},
        "max_steps": None,
    }
    (home / "plan.json").write_text(json.dumps(plan))
    if attempt:
        (home / "attempts" / "1.json").write_text(json.dumps({"attempt": 1, "resume": {"path": None}}))
        (home / "attempts" / "1.started.json").write_text("{}")
    if ended:
        (home / "attempts" / "1.end.json").write_text("{}")


def _model(commit: str, **more: Any) -> dict[str, Any]:
    return {"repo_type": "model", "repo": "org/tiny", "commit": commit, **more}


def test_the_list_says_who_uses_what_and_what_is_shared(layout: Layout) -> None:
    path = layout.relative(layout.snapshot("model", "org/tiny", COMMITS[0]))
    _run(layout, "r1", "weights", path, attempt=True, ended=True)

    first, second = catalogue.list_snapshots(layout, {})["snapshots"]

    assert (first["used_by"], second["used_by"]) == (["r1"], [])
    assert first["last_used"] > 1.7e9 and second["last_used"] is None
    assert first["shared_bytes"] == second["shared_bytes"] == 5000
    assert (first["refs"], second["refs"]) == ([], ["main"])


@pytest.mark.parametrize(
    ("revision", "meant"), [(None, 1), ("main", 1), (COMMITS[0], 0), ("aaaaaa", 0), ("abbbbbbb", 1)]
)
def test_a_snapshot_is_found_by_branch_commit_or_its_first_digits(
    layout: Layout, revision: str | None, meant: int
) -> None:
    found = catalogue.find_snapshot(layout, {"repo": "org/tiny", "revision": revision})

    assert (found["commit"], found["root"]) == (COMMITS[meant], str(layout.root))


def test_a_name_that_means_none_or_several_says_what_is_there(layout: Layout) -> None:
    with pytest.raises(NotThereError, match="aaaaaaaaaaaa"):
        catalogue.find_snapshot(layout, {"repo": "org/tiny", "revision": "dev"})
    with pytest.raises(NotThereError):
        catalogue.find_snapshot(layout, {"repo": "org/tiny", "revision": "aa"})  # too short to be meant
    _ref(layout, "main", COMMITS[0])
    (layout.repo("model", "org/tiny") / "refs" / "main").unlink()
    with pytest.raises(BadInputError, match="several"):
        catalogue.find_snapshot(layout, {"repo": "org/tiny", "revision": None})


@pytest.mark.parametrize(("attempt", "word"), [(True, "live"), (False, "planned")])
def test_what_a_live_or_planned_run_uses_is_not_removed(layout: Layout, attempt: bool, word: str) -> None:
    path = layout.snapshot("model", "org/tiny", COMMITS[0])
    _run(layout, "r1", "weights", layout.relative(path), attempt=attempt, ended=False)

    with pytest.raises(ChangedError, match=rf"r1 \({word}\)"):
        catalogue.remove_model(layout, _model(COMMITS[0]))

    assert (path / "own.bin").is_file()
    if attempt:  # its job is gone, by the cluster's word
        catalogue.remove_model(layout, _model(COMMITS[0], over=["r1"]))
        assert not path.exists()


def test_removing_one_leaves_what_the_other_shares(layout: Layout) -> None:
    first, second = (layout.snapshot("model", "org/tiny", commit) for commit in COMMITS)

    answer = catalogue.remove_model(layout, _model(COMMITS[0]))

    assert not first.exists() and (second / "shared.bin").read_bytes() == b"s" * 5000
    assert 0 < answer["freed"] < 5000 + 2 * 8192 + 4096
    assert [entry["commit"] for entry in catalogue.list_snapshots(layout, {})["snapshots"]] == [COMMITS[1]]
    assert not (layout.repo("model", "org/tiny") / "refs" / "slipway" / COMMITS[0]).exists()
    with pytest.raises(NotThereError):
        catalogue.remove_model(layout, _model(COMMITS[0]))


def test_the_last_one_takes_its_repository_with_it(layout: Layout) -> None:
    for commit in COMMITS:
        catalogue.remove_model(layout, _model(commit))

    assert not layout.repo("model", "org/tiny").exists()


def test_a_dataset_version_is_removed_unless_a_run_uses_it(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "train.jsonl").write_text('{"text": "a"}\n')
    for version in ("v1", "v2"):
        datasets.stage(
            layout, {"name": "d", "version": version, "source": {"kind": "folder", "path": str(tmp_path / "d")}}
        )
    _run(layout, "r1", "dataset", "datasets/d/v1", attempt=True, ended=False)

    with pytest.raises(ChangedError, match="r1"):
        catalogue.remove_dataset(layout, {"name": "d", "version": "v1"})
    catalogue.remove_dataset(layout, {"name": "d", "version": "v2"})

    (left,) = catalogue.list_datasets(layout, {})["datasets"]
    assert (left["version"], left["used_by"]) == ("v1", ["r1"])
    with pytest.raises(NotThereError):
        catalogue.remove_dataset(layout, {"name": "d", "version": "v3"})
