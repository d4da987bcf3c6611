"""Each broken config is refused with its key, the reason and a remedy; those in the shape of public ones are not."""

from typing import Any

import pytest

from tasks.pod.trainers import axolotl_keys, hf_arguments, transformers
from tasks.pod.trainers.axolotl import Axolotl
from tasks.pod.trainers.table import adapter
from tests.tasks.pod.trainers.configs import GONE, GOOD, told


@pytest.mark.parametrize("name", GOOD)
def test_configs_in_the_shape_of_public_ones_have_no_problems(name: str) -> None:
    assert told(name) == []


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("trl", {"model_name_or_path": "/volume/models/mine", "model_revision": GONE}),
        ("trl", {"learning_rate": "2e-5", "save_steps": "100"}),
        ("trl", {"my_own_argument": [1, 2], "deepspeed": "ds.json"}),
        ("trl", {"dataset_name": "/volume/datasets/chat/v2", "use_peft": True, "lora_r": 8}),
        ("trl", {"dataset_name": GONE, "datasets": [{"path": "/volume/datasets/a/v1"}, {"path": "/volume/data/b"}]}),
        ("trl", {"resume_from_checkpoint": "/volume/runs/a/checkpoint-300"}),
        ("trl", {"resume_from_checkpoint": True, "save_steps": 0.1}),
        ("trl", {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 50}),
        ("trl", {"volume": "research", "volume_size": "2Ti", "retention": {"keep_last": 3}}),
        ("axolotl", {"pretraining_dataset": [{"path": "datasets/web"}], "datasets": GONE, "max_steps": 10}),
        ("axolotl", {"adapter": "qlora", "load_in_4bit": True}),
        (
            "axolotl",
            {"datasets": [{"path": "datasets/a", "type": "x"}, {"path": "/volume/datasets/b/v1", "type": "y"}]},
        ),
        ("llama-factory", {"stage": "pt", "template": GONE}),
        ("llama-factory", {"dataset_dir": "/volume/data/mine", "finetuning_type": "lora", "quantization_bit": 4}),
        ("prime-rl", {"data": {"type": "fake"}, "model__name": "org/unknown"}),
        ("prime-rl", {"model__name": "/volume/models/mine", "renderer": {"name": "qwen3"}}),
        ("prime-rl", {"model__lora": {"rank": 8}}),
        ("prime-rl", {"resume": {"dir": "/volume/runs/a/checkpoints/step_50"}}),
        ("prime-rl-rl", {"resume": {"dir": "/volume/runs/a/checkpoints/step_10"}}),
        ("command", {"train__resume": "/volume/runs/a/checkpoints/step_50", "train__anything": {"goes": 1}}),
    ],
)
def test_what_a_trainer_takes_is_no_problem(name: str, changes: dict[str, Any]) -> None:
    assert told(name, **changes) == []


BROKEN: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("trl", {"model_name_or_path": GONE}, "model_name_or_path", "is missing", "org/name"),
    ("trl", {"model_name_or_path": "./models/mine"}, "model_name_or_path", "neither a path", "/volume/models/NAME"),
    ("trl", {"model_name_or_path": 5}, "model_name_or_path", "must be text", "org/name"),
    ("trl", {"model_name_or_path": "o/n@v1"}, "model_revision", "a revision too", "once"),
    ("trl", {"dataset_name": "HuggingFaceH4/no_robots"}, "dataset_name", "no dataset on the volume", "Stage it"),
    ("trl", {"dataset_name": GONE}, "dataset_name", "is missing", "datasets/NAME"),
    ("trl", {"learning_rat": 1}, "learning_rat", "like learning_rate", "extra_keys"),
    ("trl", {"max_seq_length": 2048}, "max_seq_length", "other trainers", "max_length"),
    ("trl", {"dataset_name": GONE, "datasets": [{"path": "org/chat"}]}, "datasets.0.path", "on the volume", "Stage it"),
    ("trl", {"dataset_name": GONE, "datasets": "org/chat"}, "datasets", "must be a list", "/volume/datasets"),
    ("axolotl", {"sequence_length": 4096}, "sequence_length", "other trainers", "sequence_len"),
    (
        "axolotl",
        {"per_device_train_batch_size": 2},
        "per_device_train_batch_size",
        "other trainers",
        "micro_batch_size",
    ),
    ("prime-rl-rl", {"wandb": {"project": "p"}}, "wandb", "earlier versions", "[monitors.wandb]"),
    ("trl", {"learning_rate": "fast"}, "learning_rate", "must be a number", "2.0e-5"),
    ("trl", {"max_steps": 1.5}, "max_steps", "whole number", "1000"),
    ("trl", {"per_device_train_batch_size": 0}, "per_device_train_batch_size", "of at least 1", "8"),
    ("trl", {"save_strategy": False}, "save_strategy", "bare `no`", '"no"'),
    ("trl", {"save_strategy": "step"}, "save_strategy", "must be", "steps"),
    ("trl", {"evaluation_strategy": "no"}, "evaluation_strategy", "earlier versions", "eval_strategy"),
    ("trl", {"push_to_hub": True}, "push_to_hub", "offline", "slipway export"),
    ("trl", {"fp16": True}, "fp16", "bf16 too", "Choose one"),
    ("trl", {"load_best_model_at_end": True}, "load_best_model_at_end", "eval_strategy is no", "the same"),
    (
        "trl",
        {"load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 30},
        "load_best_model_at_end",
        "no multiple",
        "multiple of eval_steps",
    ),
    (
        "trl",
        {"resume_from_checkpoint": "/volume/runs/a/checkpoint-400"},
        "max_steps",
        "at step 400 already",
        "above 400",
    ),
    ("trl", {"resume_from_checkpoint": "out/checkpoint-5"}, "resume_from_checkpoint", "not on the volume", "/volume"),
    (
        "trl",
        {"resume_from_checkpoint": "/volume/runs/a/step_5"},
        "resume_from_checkpoint",
        "checkpoint-<digits>",
        "checkpoint-100",
    ),
    ("trl", {"retention": {"keep_last": 0}}, "retention.keep_last", "of at least 1", "3"),
    ("axolotl", {"base_model": GONE}, "base_model", "is missing", "org/name"),
    ("axolotl", {"datasets": GONE}, "datasets", "is missing", "datasets/NAME"),
    ("axolotl", {"datasets": [{"path": "tatsu-lab/alpaca", "type": "alpaca"}]}, "datasets.0.path", "offline", "Stage"),
    ("axolotl", {"datasets": [{"type": "alpaca"}]}, "datasets.0.path", "is missing", "datasets/NAME"),
    ("axolotl", {"datasets": [{"path": "datasets/a"}]}, "datasets.0.type", "is missing", "chat_template"),
    (
        "axolotl",
        {"datasets": [{"path": "datasets/a", "type": "x"}, {"path": "datasets/b", "type": "x"}]},
        "datasets",
        "2 datasets",
        "/volume/datasets/NAME/VERSION",
    ),
    ("axolotl", {"lora_target_linear": GONE}, "lora_target_linear", "adapter is lora", "lora_target_linear: true"),
    ("axolotl", {"adapter": "qlora"}, "load_in_4bit", "4 bits", "load_in_4bit: true"),
    ("axolotl", {"adapter": "lorra"}, "adapter", "must be", "lora"),
    ("axolotl", {"save_steps": 10}, "saves_per_epoch", "save_steps too", "Choose one"),
    ("axolotl", {"max_packed_sequence_len": 5}, "max_packed_sequence_len", "earlier versions", "sample_packing"),
    ("axolotl", {"hub_model_id": "a/b"}, "hub_model_id", "offline", "slipway export"),
    ("axolotl", {"context_parapllel_size": 2}, "context_parapllel_size", "like context_parallel_size", "extra_keys"),
    ("axolotl", {"micro_batch_size": "two"}, "micro_batch_size", "whole number", "2"),
    ("llama-factory", {"dataset_dir": GONE}, "dataset_dir", "is missing", "datasets/NAME"),
    ("llama-factory", {"dataset_dir": "data"}, "dataset_dir", "no dataset on the volume", "Stage it"),
    ("llama-factory", {"dataset": GONE}, "dataset", "is missing", "NAME"),
    ("llama-factory", {"template": GONE}, "template", "is missing", "llama3"),
    ("llama-factory", {"stage": "sfft"}, "stage", "must be", "sft"),
    ("llama-factory", {"do_train": GONE}, "do_train", "nothing would be trained", "do_train: true"),
    ("llama-factory", {"quantization_bit": 4}, "quantization_bit", "can not be trained", "finetuning_type: lora"),
    ("llama-factory", {"cutof_len": 5}, "cutof_len", "would refuse", "cutoff_len"),
    ("llama-factory", {"streaming": True}, "max_steps", "streaming is true", "max_steps: 1000"),
    ("prime-rl", {"model__name": GONE}, "model.name", "is missing", "[model]"),
    ("prime-rl", {"model__name": "/volume/models/mine"}, "renderer.name", "is missing", "qwen3.5"),
    ("prime-rl", {"renderer": {"name": "qwen33"}}, "renderer.name", "there is not", "qwen3"),
    ("prime-rl", {"tokenizer": {"name": "other/model"}}, "tokenizer.name", "not staged", "/volume"),
    ("prime-rl", {"data__name": "PrimeIntellect/Reverse-Text-SFT"}, "data.name", "no dataset on the volume", "Stage"),
    ("prime-rl", {"data__name": GONE}, "data.name", "is missing", "datasets/NAME"),
    ("prime-rl", {"data__micro_batch_size": 5}, "data.batch_size", "no multiple", "one"),
    ("prime-rl", {"optim__lrr": 1}, "optim.lrr", "no key", "optim.lr"),
    ("prime-rl", {"ckpt__resume_step": 5}, "ckpt.resume_step", "earlier versions", "slipway fork"),
    ("prime-rl", {"ckpt__keep_last": 0}, "ckpt.keep_last", "of at least 1", "3"),
    ("prime-rl", {"ckpt": {"keep_interval": 50}}, "ckpt.keep_interval", "the newest too", "keep_last = 2"),
    ("prime-rl", {"ckpt__output_dir": "/data"}, "ckpt.output_dir", "elsewhere", "Remove"),
    ("prime-rl", {"resume": {"step": 5}}, "resume.step", "complete or not", "its dir"),
    ("prime-rl", {"resume": {}}, "resume", "complete or not", "its dir"),
    (
        "prime-rl",
        {"resume": {"dir": "/volume/runs/a/checkpoints/step_100"}},
        "max_steps",
        "at step 100 already",
        "above 100",
    ),
    ("prime-rl", {"resume": {"dir": "/volume/runs/a/checkpoints/step_9/trainer"}}, "resume.dir", "has to end", "step_"),
    ("prime-rl", {"slurm": {}}, "slurm", "SLURM", "Remove"),
    ("prime-rl", {"clean": True}, "clean", "deletes", "Remove"),
    ("prime-rl", {"deployment__type": "multi_node"}, "deployment.type", "SLURM only", "resources"),
    ("prime-rl", {"deployment__num_train_gpus": 16}, "deployment.num_train_gpus", "a node has 8", "gpus_per_node"),
    ("prime-rl", {"scheduler__warmup_steps": 100}, "scheduler.warmup_steps", "max_steps is 100", "less than 100"),
    ("prime-rl", {"max_steps": GONE}, "max_steps", "needs an end", "max_steps = 1000"),
    ("prime-rl", {"inference": {}}, "inference", "online evals", "[eval]"),
    ("prime-rl", {"wandb": {"project": "x"}}, "wandb", "earlier versions", "[monitors.wandb]"),
    ("prime-rl-rl", {"model__name": "/volume/models/mine"}, "model.name", "three roles", "rl_reads_volume"),
    ("prime-rl-rl", {"model__name": "o/n@v1"}, "model.name", "has a revision", "rl_reads_volume"),
    ("prime-rl-rl", {"trainer__model": {"name": "o/other"}}, "trainer.model.name", "one model", "Remove"),
    ("prime-rl-rl", {"orchestrator": GONE}, "orchestrator", "has both", "[orchestrator]"),
    ("prime-rl-rl", {"deployment__type": "multi_node"}, "deployment.type", "SLURM", "one job"),
    ("prime-rl-rl", {"orchestratr": {}}, "orchestratr", "no key", "orchestrator"),
    ("command", {"model__path": GONE}, "model.path", "is missing", "org/name"),
    ("command", {"data__path": "s3://bucket/data"}, "data.path", "no dataset on the volume", "Stage it"),
    ("command", {"train__steps": 0}, "train.steps", "of at least 1", "100"),
    ("command", {"train__resume": "/volume/runs/a/checkpoints/last"}, "train.resume", "has to end", "step_100"),
    ("command", {"train__resume": "/volume/r/step_200"}, "train.steps", "at step 200 already", "above 200"),
]


@pytest.mark.parametrize(("name", "changes", "key", "reason", "remedy"), BROKEN)
def test_a_broken_config_is_told_by_key_reason_and_remedy(
    name: str, changes: dict[str, Any], key: str, reason: str, remedy: str
) -> None:
    problems = told(name, **changes)

    assert len(problems) == 1, problems
    assert problems[0].startswith(f"{key}: ")
    assert reason in problems[0]
    assert remedy in problems[0]


def test_what_other_trainers_call_something_is_no_name_of_this_one() -> None:
    assert not axolotl_keys.CALLED_ELSEWHERE.keys() & {*axolotl_keys.NAMES, *Axolotl.typed}
    assert not transformers.CALLED_ELSEWHERE.keys() & {*hf_arguments.NAMES, *hf_arguments.TYPED, *transformers.TRL}


def test_a_script_of_ones_own_may_call_something_as_it_likes() -> None:
    trainer = adapter("transformers", {"program": "/app/train.py"})
    config = trainer.parse(GOOD["trl"][2]) | {"lr": 1, "max_seq_length": 2048}
    assert trainer.problems(config) == []
