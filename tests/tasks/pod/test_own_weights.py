"""Weights of a team's own: proven complete before anybody can name them, listed, not taken away from a live run."""

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.pod import own_weights, records
from tasks.pod.errors import BadInputError, ChangedError, NotThereError
from tasks.pod.layout import Layout
from tasks.pod.weights import inspect
from tests.tasks.pod.staging.conftest import write_model


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "v").mkdir()
    return Layout(tmp_path / "v")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_model(tmp_path / "weights", size=4000)


def asked(source: Path, name: str = "mine") -> dict[str, Any]:
    return {"name": name, "source": {"kind": "folder", "path": str(source)}}


def use(layout: Layout, run: str, path: str) -> None:
    plan = {
        "run": run,
        "created_at": "2026-11-30T12:00:00+00:00",
        "trainer": {"checkpoint_format": None, "checkpoints": "checkpoints", "metrics": "m.jsonl"},
        "max_steps": 1,
        "config": {},
    }
    plan |= {"resolved": {"weights": {"path": path}}, "request": {}, "volume": "v", "request_hash": "h"}
    records.replace(layout.records(run) / "plan.json", plan)


def test_a_folder_becomes_weights_that_a_run_can_name(layout: Layout, source: Path) -> None:
    answer = own_weights.stage(layout, asked(source))

    assert answer["staged"] and answer["path"] == "models/mine"
    assert inspect(layout, {"path": "/volume/models/mine"})["ok"]
    there, given = (sorted(p.relative_to(f) for p in f.rglob("*")) for f in (layout.root / "models/mine", source))
    assert there == given
    assert all(file.stat().st_mode & 0o777 == 0o444 for file in (layout.root / "models/mine").glob("*.safetensors"))
    assert own_weights.stage(layout, asked(source)) == answer


def test_a_name_that_is_taken_is_left_alone(layout: Layout, source: Path, tmp_path: Path) -> None:
    write_model(layout.root / "models" / "put", size=400)
    own_weights.stage(layout, asked(source))
    (source / "config.json").write_text('{"model_type": "another"}')

    for name in ("put", "mine"):
        with pytest.raises(BadInputError, match=f"models/{name} already"):
            own_weights.stage(layout, asked(source, name))
    assert json.loads((layout.root / "models/mine/config.json").read_text())["model_type"] == "tiny"


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda f: (f / "model-00002-of-00003.safetensors").unlink(), "model-00002-of-00003.safetensors is missing"),
        (lambda f: (f / "model-00001-of-00003.safetensors").write_bytes(b"\0" * 64), "not complete"),
        (lambda f: (f / "config.json").unlink(), "no config.json"),
        (lambda f: (f / "optimizer.pt").write_bytes(b"x"), "training checkpoint"),
        (lambda f: [(f / "model.safetensors.index.json").rename(f / "pytorch_model.bin")], "no safetensors"),
    ],
    ids=["a shard is missing", "a torn shard", "no config", "a checkpoint", "no safetensors"],
)
def test_what_is_no_complete_model_is_never_visible(layout: Layout, source: Path, spoil: Any, why: str) -> None:
    spoil(source)
    with pytest.raises(BadInputError, match=why):
        own_weights.stage(layout, asked(source))
    assert not (layout.root / "models").exists()
    assert own_weights.list_weights(layout, {})["weights"] == []


def test_names_that_lead_elsewhere_and_sources_that_are_not_there(layout: Layout, source: Path) -> None:
    with pytest.raises(BadInputError, match="model name"):
        own_weights.stage(layout, asked(source, "../x"))
    with pytest.raises(NotThereError):
        own_weights.stage(layout, asked(source / "absent"))


def test_they_are_listed_with_who_uses_them_and_kept_for_them(layout: Layout, source: Path) -> None:
    own_weights.stage(layout, asked(source))
    (layout.root / "models" / "half").mkdir()
    use(layout, "live", "models/mine")

    half, mine = own_weights.list_weights(layout, {})["weights"]

    assert (half["name"], half["staged"]) == ("half", False) and half["used_by"] == []
    assert (mine["name"], mine["staged"], mine["used_by"]) == ("mine", True, ["live"])
    with pytest.raises(ChangedError, match="live"):
        own_weights.remove(layout, {"name": "mine"})
    assert own_weights.remove(layout, {"name": "half"})["path"] == "models/half"
    with pytest.raises(NotThereError):
        own_weights.remove(layout, {"name": "half"})


def test_what_is_removed_can_be_staged_again(layout: Layout, source: Path) -> None:
    first = own_weights.stage(layout, asked(source))
    removed = own_weights.remove(layout, {"name": "mine"})
    assert removed["bytes"] == first["bytes"] and removed["freed"] >= first["bytes"]
    assert not (layout.root / "models/mine").exists()
    (source / "README.md").write_text("changed")
    assert own_weights.stage(layout, asked(source))["staged"]
