"""Each thing that can not be trained with is refused in one clear line, with exit code 1 and no traceback."""

import json
import shutil

import pytest


def copy_of(bench, source, name):
    return shutil.copytree(source, bench.place / name)


def test_weights_that_are_not_there(bench):
    line = bench.refused("run", model__name=bench.place / "nowhere")
    assert "There are no weights at" in line and "config.json is missing" in line


def test_a_missing_shard(bench):
    model = copy_of(bench, bench.small_model, "model")
    (model / "model-00002-of-00002.safetensors").unlink()
    assert "are incomplete: model-00002-of-00002.safetensors is missing" in bench.refused("run", model__name=model)


def test_a_cut_off_shard(bench):
    model = copy_of(bench, bench.small_model, "model")
    shard = model / "model-00001-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-100])
    assert "model-00001-of-00002.safetensors is damaged" in bench.refused("run", model__name=model)


def test_a_missing_tensor_and_a_wrong_shape(bench):
    model = copy_of(bench, bench.small_model, "model")
    index = json.loads((model / "model.safetensors.index.json").read_text())
    index["weight_map"] = dict.fromkeys(("embedding.weight", "hidden.weight"), "model-00001-of-00002.safetensors")
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "tensor hidden.bias is missing" in bench.refused("run", model__name=model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "embedding_size": 17}))
    assert "embedding.weight has shape (256, 16), config.json says (256, 17)" in bench.refused("run", model__name=model)


def test_another_kind_of_model(bench):
    model = bench.place / "llama"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "llama"}')
    assert "its model_type is 'llama'" in bench.refused("run", model__name=model)


def test_a_checkpoint_where_a_model_belongs(bench):
    source = bench.train("source", max_steps=10)
    line = bench.refused("run", model__name=source / "checkpoints/step_10")
    assert "is a training checkpoint" in line and "[resume].dir" in line


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (None, "there is no such directory"),
        ([], "bytes to learn from"),
        (['{"text": "short"}'], "has 5 bytes to learn from, and [data].seq_len is 32"),
        (['{"text": "fine"}', "not json"], "train.jsonl, line 2, can not be learned from"),
        (['{"prompt": "alone"}'], "line 1, can not be learned from"),
        (['{"text": null}'], "line 1, can not be learned from"),
    ],
)
def test_data_that_can_not_be_learned_from(bench, rows, told):
    dataset = bench.place / "dataset"
    if rows is not None:
        dataset.mkdir()
        (dataset / "train.jsonl").write_text("\n".join(rows))
    assert told in bench.refused("run", data__name=dataset)


def test_a_directory_without_json_lines(bench):
    assert "there are no .jsonl files in it" in bench.refused("run", data__name=bench.model)


def test_an_output_directory_that_has_checkpoints(bench):
    bench.train("run", max_steps=10)
    line = bench.refused("run")
    assert "has checkpoints already, the newest of step 10" in line and "[resume].dir" in line


def test_resuming_from_what_is_no_complete_checkpoint(bench):
    source = bench.train("source", max_steps=10)
    step = source / "checkpoints/step_10"
    assert "There is no checkpoint at" in bench.refused("run", resume__dir=source / "checkpoints/step_11")
    assert "is a checkpoint of step 10" in bench.refused("run", resume__dir=step.rename(step.with_name("step_12")))
    step = source / "checkpoints/step_12"
    content = (step / "state.json").read_bytes()
    (step / "state.json").write_bytes(content.replace(b"10", b"12"))
    assert "state.json is not what complete.json says" in bench.refused("run", resume__dir=step)
    (step / "complete.json").unlink()
    assert "is incomplete: it has no complete.json" in bench.refused("run", resume__dir=step)


def test_resuming_another_architecture(bench):
    source = bench.train("source", max_steps=10)
    line = bench.refused("run", model__name=bench.model, resume__dir=source / "checkpoints/step_10")
    assert "is of another architecture" in line and "hidden_size=64" in line and "hidden_size=640" in line


def test_resuming_with_nothing_left_to_do(bench):
    source = bench.train("source", max_steps=10)
    assert "set it above 10" in bench.refused("run", max_steps=10, resume__dir=source / "checkpoints/step_10")


def test_a_training_that_diverges(bench):
    line = bench.refused("run", optim__lr=1e38)
    assert "The training diverged at step 1" in line and "Lower [optim].lr" in line
    assert not (bench.place / "run/checkpoints").exists()


def test_a_bad_config(bench):
    assert "optim.lr: must be a number above 0, is 'abc'" in bench.refused("run", optim__lr="abc")
    assert "Did you mean max_steps?" in bench.refused("run", max_step=3)
    assert "output_dir: is missing" in bench.refused("run", output_dir=None)


def test_wrong_usage(bench):
    process = bench.start(bench.place / "missing.toml")
    _, errors = process.communicate()
    assert process.returncode == 1 and "There is no config" in errors
