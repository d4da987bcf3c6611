"""Weights are made of checkpoints that have some; of others, the tool is named."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tasks.pod.checkpoints import table
from tasks.pod.checkpoints.look import look
from tasks.pod.errors import BadInputError, ChangedError, NotThereError
from tasks.pod.export_weights import TOOLS, export_weights, tool_for
from tasks.pod.layout import Layout
from tasks.pod.weights import inspect
from tests.tasks.pod.staging.conftest import write_model

DATA = Path(__file__).parents[2] / "data" / "checkpoints"
HERE = {"tiny", "hf-trainer", "safetensors", "dcp-hf"}  # their files are weights already


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "v")
    write_model(layout.root / "models" / "base", size=400)
    (layout.root / "models/base/tokenizer.json").write_text('{"of": "base"}')
    return layout


def given(layout: Layout, archive: str, **changes: Any) -> dict[str, Any]:
    """The arguments for the complete step in an archive of the corpus."""
    with tarfile.open(DATA / archive) as tar:
        tar.extractall(layout.root / "runs" / "r", filter="data")
    (report,) = look(layout, {"runs": ["r"]})["reports"].values()
    (step,) = [c for c in report["checkpoints"] if c["path"] == report["latest_complete"]]
    found = {"source": f"runs/r/{step['path']}", "fingerprint": step["fingerprint"], "format": step["format"]}
    return found | {"base": "models/base", "name": "new"} | changes


def test_a_sharded_checkpoint_of_the_hugging_face_trainer_becomes_a_model(layout: Layout) -> None:
    asked = given(layout, "hf-sharded.tar.gz")
    answer = export_weights(layout, asked)

    assert answer["created"] and answer["path"] == "models/new"
    assert inspect(layout, {"path": "models/new"})["ok"]
    names = {path.name for path in (layout.root / "models/new").iterdir()}
    assert "optimizer.pt" not in names and "model.safetensors.index.json" in names
    mine = json.loads((layout.root / "models/new/config.json").read_text())
    assert mine == json.loads((layout.root / asked["source"] / "config.json").read_text())
    assert (layout.root / "models/new/tokenizer.json").read_text() == '{"of": "base"}'
    again = export_weights(layout, asked)
    assert not again["created"] and again | {"created": True} == answer


def test_a_name_that_is_taken_is_left_alone(layout: Layout) -> None:
    asked = given(layout, "hf-sharded.tar.gz", name="base")
    with pytest.raises(BadInputError, match="models/base already"):
        export_weights(layout, asked)
    export_weights(layout, asked | {"name": "new"})
    with pytest.raises(BadInputError, match="models/new already"):
        export_weights(layout, asked | {"name": "new", "source": "runs/other/step"})


def test_what_is_no_longer_what_was_chosen_is_refused(layout: Layout) -> None:
    asked = given(layout, "hf-sharded.tar.gz")
    with (layout.root / asked["source"] / "config.json").open("a") as file:
        file.write(" ")
    with pytest.raises(ChangedError):
        export_weights(layout, asked)
    assert not (layout.root / "models/new").exists()
    with pytest.raises(NotThereError):
        export_weights(layout, asked | {"source": "runs/r/absent"})
    with pytest.raises(BadInputError, match="model name"):
        export_weights(layout, asked | {"name": "../x"})


@pytest.mark.parametrize("kind", [*sorted(TOOLS), "hf-trainer+peft", "hf-trainer+fsdp", "hf-trainer+deepspeed"])
def test_for_formats_without_such_weights_the_tool_is_named(layout: Layout, kind: str) -> None:
    with pytest.raises(BadInputError) as caught:
        export_weights(layout, {"source": "runs/r", "fingerprint": "", "format": kind, "base": "b", "name": "n"})
    assert tool_for(kind) in caught.value.remedy


def test_of_every_known_format_it_is_known_what_makes_weights_of_it() -> None:
    assert {known.name for known in table.FORMATS} - set(TOOLS) == HERE
