import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tasks.pod import datasets, staging
from tasks.pod.errors import BadInputError, ChangedError, NotThereError
from tasks.pod.layout import Layout
from tests.deployments.hub.faulty import FaultyHub, WrongBytes
from tests.tasks.pod.staging.conftest import Programs


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "my data"
    (folder / "deep").mkdir(parents=True)
    (folder / "train.jsonl").write_text('{"text": "a"}\n' * 1000)
    (folder / "deep" / "-ü x.jsonl").write_text('{"text": "b"}\n')
    return folder


def stage(layout: Layout, source: Path, version: str | None = None, name: str = "letters") -> dict[str, Any]:
    return datasets.stage(layout, {"name": name, "version": version, "source": {"kind": "folder", "path": str(source)}})


def content(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }


def test_a_staged_folder_is_a_read_only_copy_with_a_manifest(layout: Layout, source: Path) -> None:
    answer = stage(layout, source, "v1")

    path = layout.root / answer["path"]
    assert answer["path"] == "datasets/letters/v1" and answer["files"] == 2
    assert content(path) == content(source)
    manifest = json.loads((path / "manifest.json").read_text())
    assert {file["path"]: file["sha256"] for file in manifest["files"]} == {
        name: hashlib.sha256(data).hexdigest() for name, data in content(source).items()
    }
    assert manifest["bytes"] == answer["bytes"] == sum(map(len, content(source).values()))
    assert answer["manifest_sha256"] == hashlib.sha256((path / "manifest.json").read_bytes()).hexdigest()
    assert {entry.stat().st_mode & 0o777 for entry in path.rglob("*") if entry.is_file()} == {0o444}
    assert (path.stat().st_mode & 0o777, (path / "deep").stat().st_mode & 0o777) == (0o555, 0o555)


def test_without_a_version_the_content_names_it(layout: Layout, source: Path) -> None:
    first = stage(layout, source)
    again = stage(layout, source)
    os.utime(source / "train.jsonl")
    touched = stage(layout, source)
    (source / "train.jsonl").write_text("{}\n")
    changed = stage(layout, source)

    assert first == again == touched
    assert first["version"] == first["content_sha256"][:12] != changed["version"]
    assert datasets.state(layout, {"name": "letters", "version": None})["version"] == changed["version"]
    assert len(datasets.list_staged(layout, {})["datasets"]) == 2


def test_a_version_never_changes(layout: Layout, source: Path) -> None:
    before = stage(layout, source, "v1")
    (source / "train.jsonl").write_text("{}\n")

    with pytest.raises(BadInputError, match=r"other content \(differs: train.jsonl\)"):
        stage(layout, source, "v1")

    assert datasets.state(layout, {"name": "letters", "version": "v1"}) == before


def test_the_same_size_with_other_bytes_is_other_content(layout: Layout, source: Path) -> None:
    stage(layout, source, "v1")
    changed = (source / "train.jsonl").read_bytes()[::-1]
    (source / "train.jsonl").write_bytes(changed)

    with pytest.raises(BadInputError, match="other content"):
        stage(layout, source, "v1")


def test_the_same_content_from_elsewhere_is_the_same_version(layout: Layout, source: Path, tmp_path: Path) -> None:
    first = stage(layout, source, "v1")
    source.rename(tmp_path / "moved")

    assert stage(layout, tmp_path / "moved", "v1") == first


def test_a_killed_copy_goes_on(layout: Layout, source: Path) -> None:
    (source / "gone.jsonl").write_text("x")
    arguments = {"kind": "folder", "path": str(source)}
    area = layout.staging(staging.dataset_identity("letters", "v1", arguments))
    done = area / "tree" / "train.jsonl"
    done.parent.mkdir(parents=True)
    done.write_bytes((source / "train.jsonl").read_bytes())
    stamp = (source / "train.jsonl").stat().st_mtime_ns
    os.utime(done, ns=(stamp, stamp))
    (area / "tree" / "gone.jsonl").write_text("x")
    (area / "part").write_text("half")
    (source / "gone.jsonl").unlink()
    inode = done.stat().st_ino

    path = layout.root / stage(layout, source, "v1")["path"]

    assert content(path) == content(source)
    assert (path / "train.jsonl").stat().st_ino == inode
    assert sorted(entry.name for entry in area.iterdir()) == ["lock", "progress.json"]


@pytest.mark.parametrize("link", ["/etc/passwd", "../outside"])
def test_links_that_lead_outside_are_refused(layout: Layout, source: Path, tmp_path: Path, link: str) -> None:
    (tmp_path / "outside").write_text("secret")
    (source / "link").symlink_to(link)

    with pytest.raises(BadInputError, match="leads outside"):
        stage(layout, source, "v1")


def test_links_to_files_inside_become_files(layout: Layout, source: Path) -> None:
    (source / "same.jsonl").symlink_to("train.jsonl")

    path = layout.root / stage(layout, source, "v1")["path"]

    assert not (path / "same.jsonl").is_symlink()
    assert (path / "same.jsonl").read_bytes() == (source / "train.jsonl").read_bytes()


def test_what_can_not_be_a_dataset_is_refused(layout: Layout, source: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInputError, match="empty"):
        stage(layout, tmp_path / "empty")
    with pytest.raises(BadInputError, match="no folder"):
        stage(layout, source / "train.jsonl")
    with pytest.raises(NotThereError, match="missing"):
        stage(layout, tmp_path / "missing")
    with pytest.raises(BadInputError, match="dataset name"):
        stage(layout, source, name="../x")
    with pytest.raises(BadInputError, match="dataset version"):
        stage(layout, source, version="a/b")
    with pytest.raises(BadInputError, match="ftp"):
        datasets.stage(layout, {"name": "a", "version": None, "source": {"kind": "ftp"}})
    (source / "manifest.json").write_text("{}")
    with pytest.raises(BadInputError, match="of its own"):
        stage(layout, source)
    assert not layout.datasets.exists()


def test_a_state_that_is_not_there(layout: Layout) -> None:
    assert not datasets.state(layout, {"name": "letters", "version": None})["staged"]
    assert not datasets.state(layout, {"name": "letters", "version": "v1"})["staged"]
    assert datasets.list_staged(layout, {}) == {"datasets": []}


@pytest.fixture
def on_hub(hub: FaultyHub) -> dict[str, Any]:
    folder = hub.repositories.root / "datasets" / "org" / "letters"
    folder.mkdir(parents=True)
    (folder / "train.jsonl").write_text('{"text": "a"}\n' * 1000)
    (folder / "data.parquet").write_bytes(os.urandom(50_000))
    commit = hub.repositories.commit("datasets", "org/letters", "main")
    assert commit
    return {"kind": "hub", "repo": "org/letters", "commit": commit.sha}


def test_a_hub_dataset_is_staged_with_its_commit(layout: Layout, hub: FaultyHub, on_hub: dict[str, Any]) -> None:
    answer = datasets.stage(layout, {"name": "letters", "version": None, "source": on_hub})

    path = layout.root / answer["path"]
    assert content(path) == content(hub.repositories.root / "datasets" / "org" / "letters")
    assert json.loads((path / "manifest.json").read_text())["source"] == on_hub
    before = sum(hub.served.values())
    assert datasets.stage(layout, {"name": "letters", "version": None, "source": on_hub}) == answer
    assert sum(hub.served.values()) == before


def test_wrong_bytes_from_the_hub_publish_nothing(layout: Layout, hub: FaultyHub, on_hub: dict[str, Any]) -> None:
    hub.fail("data.parquet", WrongBytes(), WrongBytes())

    with pytest.raises(ChangedError):
        datasets.stage(layout, {"name": "letters", "version": "v1", "source": on_hub})

    assert not layout.datasets.exists()


def test_jobs_at_once_publish_one_version(programs: Programs, source: Path, layout: Layout) -> None:
    arguments = {"name": "letters", "version": None, "source": {"kind": "folder", "path": str(source)}}
    jobs = [programs.start("datasets.stage", arguments) for _ in range(6)]

    answers = [programs.answer(job) for job in jobs]

    assert all(answer == answers[0] for answer in answers) and "ok" in answers[0], answers
    assert len(datasets.list_staged(layout, {})["datasets"]) == 1
