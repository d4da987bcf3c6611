"""Checkpoints are sized before anything starts."""

from pathlib import Path
from typing import Any

import pytest

from blocks.clusters.local.cluster import LocalCluster
from tasks.plans.plan import Item, Mark
from tasks.plans.sizes import saves
from tasks.pod.trainers.adapter import ModelSize, Needs
from tasks.pod.trainers.table import adapter
from tests.tasks.conftest import Desk
from tests.tasks.pod.trainers.configs import COMMAND_OPTIONS, GOOD, changed


def checkpoints(desk: Desk, **changes: Any) -> Item | None:
    items = [i for i in desk.plan(desk.request("r", **changes)).items if i.subject == "checkpoints"]
    return items[0] if items else None


def test_what_the_tiny_trainer_saves_is_predicted_but_for_some_headers(desk: Desk, tmp_path: Path) -> None:
    desk.train(desk.request("first"))
    again = desk.request("second")
    weights = desk.plan(again).resolved
    assert weights is not None
    found = desk.cluster.call("v", "weights.inspect", {"path": weights.weights.path})
    predicted = adapter("tiny").checkpoint_bytes(again.config, ModelSize(found["parameters"]))
    step = tmp_path / "cluster/volumes/me/v/runs/first/checkpoints/step_4"
    actual = sum(path.stat().st_size for path in step.iterdir())

    assert predicted is not None and 0 <= predicted - actual < 8 << 10
    item = checkpoints(desk)
    assert item is not None and item.mark is Mark.READY
    assert "3 of them" in item.detail and "at most" not in item.detail


@pytest.mark.parametrize(
    ("size", "changes", "mark", "words"),
    [
        ("200Mi", {}, Mark.READY, "3 of them"),
        ("200Mi", {"max_steps": 400}, Mark.WARNING, "100 of them"),
        ("200Mi", {"max_steps": 400, "ckpt__keep_last": 2}, Mark.READY, "3 of them"),
        ("200Mi", {"max_steps": 400, "ckpt__keep_last": 60}, Mark.BLOCKED, "61 of them"),
        ("4Mi", {}, Mark.BLOCKED, "a checkpoint takes"),
    ],
)
def test_what_does_not_fit_is_said_or_refused(
    desk: Desk, size: str, changes: dict[str, Any], mark: Mark, words: str
) -> None:
    item = checkpoints(desk, volume_size=size, **changes)
    assert item is not None and item.mark is mark, item
    assert words in item.detail and "at most" in item.detail, "the weights are not staged yet"
    assert bool(item.remedy) == (mark is not Mark.READY)


def test_what_is_saved_is_counted_from_where_a_run_begins() -> None:
    def count(steps: int | None, every: int | None, start: int = 0) -> int | None:
        return saves(Needs("m", None, steps, checkpoint_every=every), start)

    assert count(100, 10) == 10
    assert count(105, 10) == 11
    assert count(100, 10, start=60) == 4
    assert count(100, None) == 1
    assert count(100, 0) == 0
    assert count(None, 10) is None


@pytest.mark.parametrize(
    ("name", "changes", "bytes_each"),
    [
        ("trl", {}, 12),
        ("trl", {"optim": "adamw_bnb_8bit"}, 6),
        ("trl", {"optim": "adafactor"}, 4),
        ("trl", {"save_only_model": True}, 4),
        ("trl", {"use_peft": True}, None),
        ("axolotl", {}, None),
        ("axolotl", {"adapter": None, "optimizer": "adamw_torch"}, 12),
        ("llama-factory", {}, 12),
        ("llama-factory", {"finetuning_type": "lora"}, None),
        ("prime-rl", {}, 12),
        ("prime-rl", {"optim.type": "sgd"}, 8),
        ("prime-rl", {"model.lora": {"rank": 8}}, None),
        ("prime-rl-rl", {}, 12),
        ("command", {}, None),
    ],
)
def test_each_trainer_says_what_a_parameter_takes(name: str, changes: dict[str, Any], bytes_each: int | None) -> None:
    kind, options, text = GOOD[name]
    trainer = adapter(kind, options)
    predicted = trainer.checkpoint_bytes(changed(trainer.parse(text), changes), ModelSize(1000))
    assert predicted == (None if bytes_each is None else 1000 * bytes_each)


LINEAR = {"q_proj": 100, "down_proj": 40, "lm_head": 9000, "embed_tokens": 9000}


@pytest.mark.parametrize(
    ("name", "changes", "most"),
    [
        ("trl", {"use_peft": True}, 12 * 16 * 140),
        ("trl", {"use_peft": True, "lora_r": 4, "lora_target_modules": ["q_proj"]}, 12 * 4 * 100),
        ("trl", {"use_peft": True, "lora_target_modules": "all-linear", "save_only_model": True}, 4 * 16 * 140),
        ("trl", {"use_peft": True, "lora_target_modules": [r".*\.q_proj"]}, None),
        ("trl", {"use_peft": True, "lora_modules_to_save": ["lm_head"]}, None),
        ("axolotl", {"adapter": "lora", "lora_r": 8, "lora_target_linear": True, "optimizer": "sgd"}, 4 * 8 * 140),
        ("llama-factory", {"finetuning_type": "lora", "lora_target": "q_proj,down_proj"}, 12 * 8 * 140),
        ("llama-factory", {"finetuning_type": "freeze"}, None),
        ("prime-rl", {"model.lora": {"rank": 8}}, 4 * 20_000 + 12 * 8 * 140),
        ("prime-rl", {"model.lora": {"rank": 8, "modules_to_save": ["lm_head"]}}, None),
    ],
)
def test_adapters_are_sized_by_the_layers_that_they_are_beside(
    name: str, changes: dict[str, Any], most: int | None
) -> None:
    kind, options, text = GOOD[name]
    trainer = adapter(kind, options)
    config = changed(trainer.parse(text), changes)
    assert trainer.checkpoint_bytes(config, ModelSize(20_000, LINEAR)) == most


def test_a_command_says_it_by_an_option() -> None:
    assert adapter("command", COMMAND_OPTIONS | {"bytes_per_parameter": 14}).checkpoint_bytes({}, ModelSize(10)) == 140


def test_the_volume_as_it_is_counts(desk: Desk, cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.volumes.create("v", 40 << 20)
    (tmp_path / "cluster/volumes/me/v/filler").write_bytes(bytes(30 << 20))
    item = checkpoints(desk)
    assert item is not None and item.mark is Mark.WARNING and "there is room for" in item.detail
