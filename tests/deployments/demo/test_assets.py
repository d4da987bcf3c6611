"""The demo's model and dataset: the same bytes every time, in the layout that a Hub repository has."""

import hashlib
import json

from safetensors.numpy import load_file

from deployments.demo.assets import commit_of, write_dataset, write_model


def test_the_model_is_the_same_bytes_every_time(tmp_path):
    write_model(tmp_path / "a")
    write_model(tmp_path / "b")
    write_model(tmp_path / "c", seed=8)
    assert commit_of(tmp_path / "a") == commit_of(tmp_path / "b") != commit_of(tmp_path / "c")
    assert commit_of(tmp_path / "a") == "cf01dd18e46fa212fb9dc920cbca5186b3f66c97"


def test_the_model_is_a_whole_sharded_repository(tmp_path):
    write_model(tmp_path)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    shards = {name: load_file(tmp_path / name) for name in set(index["weight_map"].values())}
    assert len(shards) == 2
    assert all(tensor in shards[name] for tensor, name in index["weight_map"].items())
    assert sum(value.nbytes for shard in shards.values() for value in shard.values()) == index["metadata"]["total_size"]
    vocabulary = json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(256))


def test_the_dataset_is_the_same_text_every_time(tmp_path):
    write_dataset(tmp_path)
    train = (tmp_path / "train.jsonl").read_bytes()
    assert hashlib.sha256(train).hexdigest() == "b57fa7720b278f8bbc6e4b732a3760567bdb7335229835f78e9feb3bc78ab7d6"
    rows = [json.loads(line)["text"] for line in train.splitlines()]
    held_out = [json.loads(line)["text"] for line in (tmp_path / "validation.jsonl").read_bytes().splitlines()]
    assert (len(rows), len(held_out)) == (1000, 100)
    assert not set(rows) & set(held_out)
