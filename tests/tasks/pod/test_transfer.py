import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tasks.pod import archive, arriving, datasets, transfer
from tasks.pod.area import staging_area
from tasks.pod.errors import BadInputError, NotThereError
from tasks.pod.layout import Layout

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "volume").mkdir()
    return Layout(tmp_path / "volume")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "my model"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "sub" / "-ü x").write_text("unicode")
    return folder


def stream(layout: Layout, name: str, arguments: dict[str, Any], given: bytes = b"") -> tuple[dict[str, Any], bytes]:
    """Run a stream program with its input left open, as it is on the way to a pod."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tasks.pod.program", "--stream", name],
        cwd=REPOSITORY,
        env=os.environ | {"SLIPWAY_VOLUME": str(layout.root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(json.dumps(arguments).encode() + b"\n" + given)
    process.stdin.flush()
    out = process.stdout.read()
    err = process.stderr.read()
    process.wait()
    process.stdin.close()
    answer: dict[str, Any] = json.loads(err.splitlines()[-1])
    return answer, out


def packed(source: Path, tmp_path: Path) -> bytes:
    with (tmp_path / "packed").open("wb") as out:
        archive.pack(source, out)
    return (tmp_path / "packed").read_bytes()


def test_put_and_get_bring_the_same_tree_back(layout: Layout, model: Path, tmp_path: Path) -> None:
    given = packed(model, tmp_path)
    put, _ = stream(layout, "transfer.receive", {"path": "models/mine", "name": model.name, "bytes": 9}, given)
    got, out = stream(layout, "transfer.send", {"path": "/volume/models/mine"})

    assert put["ok"] == {"path": "models/mine", "files": 2, "bytes": 9}
    assert got["ok"] == {"path": "models/mine", "name": "mine", "is_file": False, "files": 2, "bytes": 9}
    (tmp_path / "private").mkdir()
    with (tmp_path / "out").open("wb") as file:
        file.write(out)
    with (tmp_path / "out").open("rb") as file:
        back = arriving.unpack(file, tmp_path / "private")
    assert (back.path / "sub" / "-ü x").read_text() == "unicode"


def test_put_into_an_existing_directory_keeps_the_name(layout: Layout, model: Path, tmp_path: Path) -> None:
    (layout.root / "models").mkdir()

    answer, _ = stream(layout, "transfer.receive", {"path": "models", "name": "my model"}, packed(model, tmp_path))

    assert answer["ok"]["path"] == "models/my model"


def test_put_refuses_what_is_there_unless_it_may_replace_it(layout: Layout, model: Path, tmp_path: Path) -> None:
    given, arguments = packed(model / "config.json", tmp_path), {"path": "a.json", "name": "config.json"}
    (layout.root / "a.json").write_text("old")

    refused, _ = stream(layout, "transfer.receive", arguments, given)
    replaced, _ = stream(layout, "transfer.receive", arguments | {"replace": True}, given)

    assert refused["error"]["kind"] == "BadInputError" and "there already" in refused["error"]["what"]
    assert replaced["ok"]["files"] == 1 and (layout.root / "a.json").read_text() == "{}"


def test_a_cut_put_leaves_nothing_visible(layout: Layout, model: Path, tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "tasks.pod.program", "--stream", "transfer.receive"],
        cwd=REPOSITORY,
        env=os.environ | {"SLIPWAY_VOLUME": str(layout.root)},
        input=b'{"path": "models/mine", "name": "x"}\n' + packed(model, tmp_path)[:2048],
        capture_output=True,
    )

    assert json.loads(process.stderr.splitlines()[-1])["error"]["kind"] == "ChangedError"
    assert not (layout.root / "models").exists()
    assert not list((layout.ours / "staging").iterdir())


@pytest.mark.parametrize(
    "path", ["hub", "hub/models--x", "runs/r/x", "/volume/holds/a", ".slipway/x", "a/../hub/x", "/runs"]
)
def test_put_refuses_our_own_places_with_the_reason(layout: Layout, path: str) -> None:
    with pytest.raises(BadInputError, match="put can not write"):
        transfer.receive(layout, {"path": path, "name": "x"})


def test_put_refuses_our_own_places_by_name_and_by_link(layout: Layout) -> None:
    layout.hub.mkdir()
    (layout.root / "innocent").symlink_to("hub")

    for arguments in ({"path": "/", "name": "runs"}, {"path": "innocent", "name": "x"}):
        with pytest.raises(BadInputError, match="put can not write"):
            transfer.receive(layout, arguments)


@pytest.mark.parametrize("path", ["a\nb", "../x", "a/../../x"])
def test_put_refuses_paths_that_lead_outside(layout: Layout, path: str) -> None:
    with pytest.raises(BadInputError):
        transfer.receive(layout, {"path": path, "name": "x"})


def test_put_refuses_published_dataset_versions(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.jsonl").write_text("{}")
    datasets.stage(layout, {"name": "d", "version": "v1", "source": {"kind": "folder", "path": f"{tmp_path}/source"}})

    for path in ("datasets/d/v1", "datasets/d/v1/new", "datasets/d/v1/a.jsonl"):
        with pytest.raises(BadInputError, match="never changes"):
            transfer.receive(layout, {"path": path, "name": "x", "replace": True})


def test_get_and_ls_refuse_links_that_lead_out_of_the_volume(layout: Layout) -> None:
    (layout.root / "out").symlink_to("/etc")

    with pytest.raises(BadInputError):
        transfer.ls(layout, {"path": "out"})
    with pytest.raises(BadInputError):
        transfer.send(layout, {"path": "out/passwd"})


def test_ls_lists_what_is_there(layout: Layout) -> None:
    (layout.root / "models" / "m").mkdir(parents=True)
    (layout.root / "models" / "m" / "config.json").write_text("{}")
    (layout.root / "latest").symlink_to("models/m")

    flat = transfer.ls(layout, {"path": "/volume"})
    deep = transfer.ls(layout, {"path": "models", "recursive": True})

    assert [(entry["path"], entry["type"]) for entry in flat["entries"]] == [
        ("latest", "link"),
        ("models", "directory"),
    ]
    assert flat["entries"][0]["link"] == "models/m"
    assert [(entry["path"], entry["size"]) for entry in deep["entries"] if entry["type"] == "file"] == [
        ("models/m/config.json", 2)
    ]


def test_ls_and_du_say_what_is_missing(layout: Layout) -> None:
    for program in (transfer.ls, transfer.du):
        with pytest.raises(NotThereError, match="models"):
            program(layout, {"path": "models"})


def test_du_counts_hard_links_once_and_sorts_by_size(layout: Layout) -> None:
    for name in ("small", "large"):
        (layout.root / name).mkdir()
    (layout.root / "small" / "f").write_bytes(os.urandom(8192))
    (layout.root / "large" / "g").write_bytes(os.urandom(1 << 20))
    os.link(layout.root / "large" / "g", layout.root / "large" / "h")

    answer = transfer.du(layout, {})

    said = subprocess.run(["du", "-sk", layout.root], capture_output=True, text=True, check=True)
    assert -(-answer["bytes"] // 1024) == int(said.stdout.split()[0])
    assert [entry["path"] for entry in answer["entries"]] == ["large", "small"]


def test_what_is_missing_of_some_paths_is_told(layout: Layout) -> None:
    (layout.root / "there").mkdir(parents=True)
    asked = {"paths": ["/volume/there", "/volume/absent.json"]}
    assert transfer.missing(layout, asked) == {"missing": ["/volume/absent.json"]}


@pytest.mark.parametrize("taken", [False, True])
def test_a_put_that_waited_for_another_into_the_same_place_begins_in_a_place_of_its_own(
    layout: Layout, model: Path, tmp_path: Path, taken: bool
) -> None:
    given = packed(model, tmp_path)
    arguments = {"path": "/there", "name": "model", "key": "abc"}
    answers: list[dict[str, Any]] = []
    with staging_area(layout, "put-abc") as area:
        put = threading.Thread(target=lambda: answers.append(stream(layout, "transfer.receive", arguments, given)[0]))
        put.start()
        until = time.monotonic() + 200
        while not _is_opened_by_another(area / "lock"):
            assert time.monotonic() < until
            time.sleep(0.05)
        if taken:
            (layout.root / "there").write_text("the other's")
        arriving.discard(area)  # as one that has come to its end does
    put.join()
    if taken:
        assert "there is there already" in answers[0]["error"]["what"]
    else:
        assert answers == [{"ok": {"path": "there", "files": 2, "bytes": 9}}]


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("transfer.cat", {"path": "closed/secret"}),
        ("transfer.cat", {"path": "secret"}),
        ("transfer.ls", {"path": "closed"}),
        ("transfer.send", {"path": "secret"}),
        ("transfer.receive", {"path": "closed/new", "name": "new"}),
    ],
)
def test_what_the_user_may_not_touch_is_told_in_one_sentence(program: str, arguments: dict[str, str]) -> None:
    with _closed_to_us() as volume:
        error = _as_nobody(volume, program, arguments)["error"]
        listed = _as_nobody(volume, "transfer.ls", {"path": ".", "recursive": True})["ok"]
    assert error["kind"] in ("DeniedError", "BadInputError") and error["what"].startswith("User ")
    assert arguments["path"].removesuffix("/new").split("/")[0] in error["what"] and str(volume) not in error["what"]
    assert {"closed", "open", "open/file"} < {entry["path"] for entry in listed["entries"]}


@contextlib.contextmanager
def _closed_to_us() -> Iterator[Path]:
    """A volume on which not all may be read; not in pytest's own folder, which nobody else may look into."""
    with tempfile.TemporaryDirectory() as folder:
        volume = Path(folder)
        (volume / "open").mkdir()
        (volume / "open" / "file").touch()
        (volume / "closed").mkdir()
        (volume / "closed" / "secret").touch()
        (volume / "secret").touch()
        if os.getuid() == 0:
            for path in (volume, volume / "open"):
                os.chown(path, 65534, 65534)
        (volume / "secret").chmod(0)
        (volume / "closed").chmod(0)
        yield volume
        (volume / "closed").chmod(0o700)


def _as_nobody(volume: Path, program: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run a program as a user who may not do everything: as ourselves, or as somebody else where we are root."""
    modules = "archive, arriving, area, transfer, usage, program"
    code = (
        f"import os, sys, json\nfrom tasks.pod import {modules}\n"
        "if os.getuid() == 0: os.setgid(65534), os.setuid(65534)\nprogram.main(sys.argv)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--stream", program],
        cwd=REPOSITORY,
        env=os.environ | {"SLIPWAY_VOLUME": str(volume)},
        input=json.dumps(arguments).encode() + b"\n" + _a_file(),
        capture_output=True,
        check=False,
    )
    answer: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    return answer


def _a_file() -> bytes:
    with tempfile.NamedTemporaryFile() as file:
        out = io.BytesIO()
        archive.pack(Path(file.name), out)
        return out.getvalue()


def _is_opened_by_another(path: Path) -> bool:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and str(path) in {file.path for file in process.open_files()}:
                return True
    return False
