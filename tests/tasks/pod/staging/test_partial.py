"""Snapshots of which only some files were wanted."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.pod import snapshots
from tasks.pod.errors import BadInputError
from tasks.pod.layout import Layout
from tasks.pod.selection import Selection
from tasks.pod.weights import inspect
from tests.deployments.hub.faulty import FaultyHub
from tests.tasks.pod.staging.conftest import Programs
from tests.tasks.pod.staging.test_snapshots import SHARD, files_below, offline

Pinned = Callable[..., dict[str, Any]]
READ = "import huggingface_hub as h; print(h.snapshot_download('org/tiny'{}))"


def test_without_patterns_everything_is_staged(layout: Layout, pinned: Pinned) -> None:
    answer = snapshots.stage(layout, pinned())

    assert (answer["partial"], answer["lacks"]) == (False, 0)


def test_a_part_says_that_it_is_one_and_what_it_lacks(layout: Layout, served: Path, pinned: Pinned) -> None:
    answer = snapshots.stage(layout, pinned() | {"allow": ["*.json"], "ignore": ["tokenizer/"]})

    there = set(files_below(layout.root / answer["path"]))
    assert there == {"config.json", "model.safetensors.index.json"}
    assert answer["staged"] and answer["partial"]
    whole = snapshots.state(layout, pinned())
    assert not whole["staged"] and whole["partial"]
    assert whole["lacks"] == len(files_below(served)) - len(there)
    assert whole["lacks_bytes"] == sum(len(c) for name, c in files_below(served).items() if name not in there)


def test_a_later_request_adds_what_it_wants_and_moves_nothing(
    layout: Layout, hub: FaultyHub, served: Path, pinned: Pinned
) -> None:
    path = layout.root / snapshots.stage(layout, pinned() | {"ignore": ["*.safetensors"]})["path"]
    before = {name: (path / name).stat().st_ino for name in files_below(path)}
    hub.served.clear()

    answer = snapshots.stage(layout, pinned())

    assert answer["staged"] and not answer["partial"]
    assert files_below(path) == files_below(served)
    assert {name: (path / name).stat().st_ino for name in before} == before
    assert sum(hub.served.values()) == sum(
        (served / name).stat().st_size for name in files_below(served) if name.endswith(".safetensors")
    )
    assert {entry.stat().st_mode & 0o777 for entry in [path, *path.rglob("*")] if entry.is_dir()} == {0o555}


def test_a_narrower_request_takes_nothing_away(layout: Layout, served: Path, pinned: Pinned) -> None:
    path = layout.root / snapshots.stage(layout, pinned())["path"]

    assert snapshots.stage(layout, pinned() | {"allow": ["README.md"]})["staged"]
    assert files_below(path) == files_below(served)


def test_offline_readers_do_not_take_a_part_for_the_whole(layout: Layout, pinned: Pinned) -> None:
    path = layout.root / snapshots.stage(layout, pinned() | {"allow": ["*.json"]})["path"]

    assert offline(layout.hub, READ.format(", allow_patterns=['*.json']")) == str(path)
    with pytest.raises(AssertionError, match=r"LocalEntryNotFoundError|IncompleteSnapshotError"):
        offline(layout.hub, READ.format(""))


def test_weights_that_lack_a_shard_are_told_from_whole_ones(layout: Layout, pinned: Pinned) -> None:
    path = snapshots.stage(layout, pinned() | {"ignore": [SHARD]})["path"]
    assert not inspect(layout, {"path": path})["ok"]
    assert SHARD in inspect(layout, {"path": path})["why"]

    snapshots.stage(layout, pinned() | {"ignore": ["README.md"]})

    assert inspect(layout, {"path": path})["ok"]


@pytest.mark.parametrize("moved", [0, 1])
def test_a_job_that_died_while_it_added_files_is_continued(
    layout: Layout, served: Path, pinned: Pinned, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    path = layout.root / snapshots.stage(layout, pinned() | {"ignore": ["*.safetensors"]})["path"]
    real, count = snapshots.put_in_place, iter(range(100))

    def dies(source: Path, root: Path, name: str) -> None:
        if next(count) == moved:
            raise KeyboardInterrupt
        real(source, root, name)

    monkeypatch.setattr(snapshots, "put_in_place", dies)
    with pytest.raises(KeyboardInterrupt):
        snapshots.stage(layout, pinned())
    monkeypatch.setattr(snapshots, "put_in_place", real)
    assert not snapshots.state(layout, pinned())["staged"]

    assert snapshots.stage(layout, pinned())["fetched_bytes"] == 0
    assert files_below(path) == files_below(served)


def test_patterns_that_leave_nothing_are_an_error(layout: Layout, programs: Programs, pinned: Pinned) -> None:
    answer = programs.run("snapshots.stage", pinned() | {"allow": ["*.gguf"]})

    assert answer["error"]["kind"] == BadInputError.__name__
    assert not snapshots.state(layout, pinned())["partial"]


def test_patterns_mean_what_they_mean_to_huggingface_hub() -> None:
    names = ["a.json", "b/c.json", "b/d/e.bin", "README.md", "b.json/x"]
    for allow, ignore in [
        (["*.json"], []),
        (["b/"], []),
        (["*"], ["b/*"]),
        ([], ["*.md", "b/d/"]),
        (["[ab].json"], []),
    ]:
        code = (
            "import sys, json; from huggingface_hub.utils import filter_repo_objects as f; a = json.load(sys.stdin); "
        )
        code += "print(json.dumps(list(f(a[0], allow_patterns=a[1] or None, ignore_patterns=a[2] or None))))"
        done = subprocess.run(
            [sys.executable, "-c", code], input=json.dumps([names, allow, ignore]), capture_output=True, text=True
        )
        selection = Selection(tuple(allow), tuple(ignore))
        assert json.loads(done.stdout) == [name for name in names if selection.wants(name)]
