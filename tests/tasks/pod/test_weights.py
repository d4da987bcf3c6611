import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from safetensors.numpy import save_file

from tasks.pod.errors import BadInputError
from tasks.pod.layout import Layout
from tasks.pod.weights import inspect
from tests.tasks.pod.staging.conftest import write_model

SHARD = "model-00002-of-00003.safetensors"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


@pytest.fixture
def model(layout: Layout) -> Path:
    return write_model(layout.root / "models" / "mine", size=4000)


def refused(layout: Layout, path: str = "models/mine") -> dict[str, Any]:
    answer = inspect(layout, {"path": path})
    assert answer["ok"] is False and answer["parameters"] is None
    return answer


def test_complete_sharded_weights_are_accepted(layout: Layout, model: Path) -> None:
    answer = inspect(layout, {"path": "/volume/models/mine"})

    assert answer["ok"], answer["why"]
    assert answer["parameters"] == 3000
    assert answer["architecture"] == "TinyModel" and answer["model_type"] == "tiny"
    assert answer["bytes"] == sum(path.stat().st_size for path in model.glob("*.safetensors"))
    assert len(answer["files"]) == 3 and answer["path"] == "models/mine"


def test_a_single_file_is_enough(layout: Layout) -> None:
    folder = layout.root / "m"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    save_file({"w": numpy.zeros((3, 4), numpy.float16)}, folder / "model.safetensors")

    assert inspect(layout, {"path": "m"})["parameters"] == 12


def test_links_inside_the_volume_are_followed(layout: Layout, model: Path) -> None:
    (model / SHARD).rename(layout.root / "blob")
    (model / SHARD).symlink_to("../../blob")

    assert inspect(layout, {"path": "models/mine"})["ok"]


def test_a_missing_shard_is_named(layout: Layout, model: Path) -> None:
    (model / SHARD).unlink()

    assert SHARD in refused(layout)["why"]


@pytest.mark.parametrize("change", [-1, 1, -3000])
def test_a_shard_of_another_length_is_named(layout: Layout, model: Path, change: int) -> None:
    content = (model / SHARD).read_bytes()
    (model / SHARD).write_bytes(content[:change] if change < 0 else content + b"x")

    assert SHARD in refused(layout)["why"]


def test_a_shard_that_lacks_a_tensor_of_the_index_is_named(layout: Layout, model: Path) -> None:
    save_file({"other": numpy.zeros(2)}, model / SHARD)

    assert "layer.2.weight" in refused(layout)["why"]


@pytest.mark.parametrize(
    "sign", ["complete.json", ".metadata", "optimizer.pt", "optimizer.safetensors", "trainer_state.json"]
)
def test_a_training_checkpoint_is_refused_with_the_remedy(layout: Layout, model: Path, sign: str) -> None:
    (model / sign).touch()

    answer = refused(layout)

    assert "training checkpoint" in answer["why"] and "[resume].dir" in answer["remedy"]


def test_a_run_with_steps_is_refused_with_the_remedy(layout: Layout) -> None:
    (layout.root / "runs" / "r" / "step_10").mkdir(parents=True)

    assert "[resume].dir" in refused(layout, "runs/r")["remedy"]


def test_what_is_no_model_is_said(layout: Layout, model: Path) -> None:
    (layout.root / "empty").mkdir()
    (layout.root / "lora").mkdir()
    (layout.root / "lora" / "adapter_config.json").touch()
    (layout.root / "old").mkdir()
    (layout.root / "old" / "config.json").write_text("{}")
    (layout.root / "old" / "pytorch_model.bin").touch()

    assert "nothing at nowhere" in refused(layout, "nowhere")["why"]
    assert "no weights" in refused(layout, "empty")["why"]
    assert "LoRA" in refused(layout, "lora")["why"]
    assert "convert" in refused(layout, "old")["remedy"].lower()
    assert "is a file" in refused(layout, "models/mine/config.json")["why"]
    (model / "config.json").unlink()
    assert "no config.json" in refused(layout)["why"]


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_a_damaged_config_or_index_is_said(layout: Layout, model: Path, text: str) -> None:
    (model / "config.json").write_text(text)
    assert "config.json" in refused(layout)["why"]
    (model / "config.json").write_text("{}")
    (model / "model.safetensors.index.json").write_text(text)
    assert "index" in refused(layout)["why"]


@pytest.mark.parametrize("shard", ["../secret.safetensors", "/etc/passwd", 3])
def test_an_index_that_leads_elsewhere_is_refused(layout: Layout, model: Path, shard: object) -> None:
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": shard}}))

    assert "no shard" in refused(layout)["why"]


def test_paths_that_lead_outside_are_bad_input(layout: Layout) -> None:
    with pytest.raises(BadInputError):
        inspect(layout, {"path": "../x"})
