"""What is rendered is what was given, but for what the platform has to set; and the command that trains with it."""

from dataclasses import replace
from typing import Any

import pytest
import yaml

from tasks.pod.errors import BadInputError
from tasks.pod.trainers.adapter import Needs, Places
from tasks.pod.trainers.table import ADAPTERS, adapter
from tests.tasks.pod.trainers.configs import COMMAND_OPTIONS, GOOD, changed

PLACES = Places(
    weights="/volume/hub/w", dataset="/volume/datasets/d/v1", output="/volume/runs/r-1", resume=None, scratch="/scratch"
)
TORCHRUN = "python -m torch.distributed.run"
STEP = "/volume/holds/r-1/checkpoint-5"


def rendered(name: str, places: Places = PLACES, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A good config with some changes, before and after."""
    kind, options, text = GOOD[name]
    trainer = adapter(kind, options)
    before = changed(trainer.parse(text), changes)
    assert trainer.problems(before) == []
    return before, trainer.parse(trainer.render(before, places))


def differences(before: dict[str, Any], after: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """What was set, by dotted key; what was taken away is None."""
    found: dict[str, Any] = {}
    for key in {**before, **after}:
        a, b = before.get(key), after.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found |= differences(a, b, f"{prefix}{key}.")
        elif a != b or (key in before) != (key in after):
            found[prefix + key] = b
    return found


@pytest.mark.parametrize(
    ("name", "put"),
    [
        (
            "trl",
            {"output_dir": "/volume/runs/r-1", "model_name_or_path": "/volume/hub/w"}
            | {"dataset_name": "/volume/datasets/d/v1", "resume_from_checkpoint": STEP},
        ),
        (
            "axolotl",
            {"output_dir": "/volume/runs/r-1", "base_model": "/volume/hub/w", "resume_from_checkpoint": STEP}
            | {"datasets": [{"path": "/volume/datasets/d/v1", "type": "chat_template"}]}
            | {"dataset_prepared_path": "/scratch/prepared"},
        ),
        (
            "llama-factory",
            {"output_dir": "/volume/runs/r-1", "model_name_or_path": "/volume/hub/w"}
            | {"dataset_dir": "/volume/datasets/d/v1", "resume_from_checkpoint": STEP},
        ),
        (
            "prime-rl",
            {"output_dir": "/volume/runs", "run": {"name": "r-1", "dir": "r-1"}, "model.name": "/volume/hub/w"}
            | {"data.name": "/volume/datasets/d/v1", "resume": {"dir": STEP}, "renderer": {"name": "qwen3"}}
            | {"model.conversion_dir": "/scratch/conversion", "volume": None, "volume_size": None},
        ),
        (
            "prime-rl-rl",
            {"output_dir": "/volume/runs", "run": {"name": "r-1", "dir": "r-1"}, "resume": {"dir": STEP}}
            | {"trainer.model": {"conversion_dir": "/scratch/conversion"}},
        ),
        (
            "command",
            {"model.path": "/volume/hub/w", "data.path": "/volume/datasets/d/v1", "train.out": "/volume/runs/r-1"}
            | {"train.resume": STEP},
        ),
    ],
)
def test_only_what_the_platform_must_set_is_set(name: str, put: dict[str, Any]) -> None:
    assert differences(*rendered(name, replace(PLACES, resume=STEP))) == put


@pytest.mark.parametrize("name", GOOD)
def test_a_fresh_start_has_no_checkpoint_to_continue_from(name: str) -> None:
    _, after = rendered(name)
    assert not after.get("resume_from_checkpoint") and "resume" not in after
    assert "resume" not in after.get("train", {})


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("trl", "resume_from_checkpoint", "/volume/runs/a/checkpoint-300"),
        ("axolotl", "resume_from_checkpoint", "/volume/runs/a/checkpoint-300"),
        ("prime-rl", "resume", {"dir": "/volume/runs/a/checkpoints/step_50"}),
        ("command", "train__resume", "/volume/runs/a/checkpoints/step_50"),
    ],
)
def test_a_checkpoint_in_a_config_is_asked_for_and_not_inherited_by_forks(name: str, key: str, value: Any) -> None:
    kind, options, text = GOOD[name]
    trainer = adapter(kind, options)
    config = changed(trainer.parse(text), {key: value})

    assert trainer.needs(config).resume == (value["dir"] if isinstance(value, dict) else value)
    assert trainer.needs(trainer.without_resume(config)).resume is None


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("model", ["org/other@v2", "org/other", "/volume/models/mine"])
def test_a_config_with_another_model_needs_that_one_and_is_otherwise_the_same(name: str, model: str) -> None:
    kind, options, text = GOOD[name]
    trainer = adapter(kind, {**options, "rl_reads_volume": True} if name == "prime-rl-rl" else options)
    config = changed(trainer.parse(text), {"tokenizer__name": "Qwen/Qwen3-0.6B"} if name == "prime-rl" else {})

    given = trainer.with_model(config, model)

    assert replace(trainer.needs(given), model="") == replace(trainer.needs(config), model="")
    assert trainer.needs(given).model == model
    assert len(differences(config, given)) == {"trl": 2, "prime-rl": 2}.get(name, 1)


def test_what_configs_need() -> None:
    def needs(name: str, **changes: Any) -> Needs:
        kind, options, text = GOOD[name]
        return adapter(kind, options).needs(changed(adapter(kind, options).parse(text), changes))

    assert needs("trl") == Needs("org/base-1b@main", "datasets/chat", 400, checkpoint_every=100, keep_last=3)
    assert needs("axolotl") == Needs("org/base-8b", "datasets/chat", None, checkpoint_every=500)
    assert needs("llama-factory") == Needs("org/base-8b", "datasets/instructions", None, checkpoint_every=500)
    assert needs("llama-factory", save_strategy="epoch", save_only_model=True).checkpoint_every is None
    assert needs("llama-factory", save_only_model=True).weights_only
    assert needs("trl", save_strategy="no").checkpoint_every == 0
    assert needs("trl", max_steps=-1).max_steps is None
    prime = needs("prime-rl")
    assert (prime.model, prime.dataset, prime.max_steps) == ("Qwen/Qwen3-0.6B", "datasets/reverse", 100)
    assert (prime.checkpoint_every, prime.keep_last, prime.schedule, prime.gpus) == (25, 2, "cosine", 1)
    assert needs("prime-rl", ckpt__skip_scheduler=True).schedule is None
    learning = needs("prime-rl-rl")
    assert (learning.model, learning.dataset, learning.gpus) == ("Qwen/Qwen3-0.6B", None, 2)
    assert needs("command") == Needs("org/base-1b", "datasets/chat", 100, checkpoint_every=10)


def test_a_dataset_named_with_its_version_stays_where_it_is_and_others_are_found() -> None:
    both = [{"path": "/volume/datasets/b/v3", "type": "y"}, {"path": "datasets/a", "type": "x"}]
    trainer = adapter("axolotl")
    config = changed(trainer.parse(GOOD["axolotl"][2]), {"datasets": both})

    assert trainer.needs(config).dataset == "datasets/a"
    _, after = rendered("axolotl", datasets=both)
    assert [entry["path"] for entry in after["datasets"]] == ["/volume/datasets/b/v3", "/volume/datasets/d/v1"]


def test_where_its_three_roles_can_read_a_path_rl_gets_it_in_all_of_them() -> None:
    trainer = adapter("prime-rl", {"rl_reads_volume": True})
    config = changed(
        trainer.parse(GOOD["prime-rl-rl"][2]),
        {"model__name": "/volume/models/m", "inference__vllm": {"model": "/volume/models/m"}},
    )
    assert [problem.key for problem in trainer.problems(config)] == ["orchestrator.renderer.name"]
    config["orchestrator"]["renderer"] = {"name": "qwen3"}
    assert trainer.problems(config) == []
    after = trainer.parse(trainer.render(config, PLACES))
    assert after["model"]["name"] == after["inference"]["vllm"]["model"] == "/volume/hub/w"
    pinned = changed(trainer.parse(GOOD["prime-rl-rl"][2]), {"model__name": "Qwen/Qwen3-0.6B@v1"})
    assert trainer.problems(pinned) == []
    assert trainer.parse(trainer.render(pinned, PLACES))["orchestrator"]["renderer"] == {"name": "qwen3"}


@pytest.mark.parametrize(
    ("name", "gpus", "nodes", "command"),
    [
        ("trl", 0, 1, "python /scratch/slipway_launch.py -m trl.scripts.sft --config C"),
        (
            "trl",
            8,
            1,
            f"{TORCHRUN} --standalone --nproc-per-node=8 /scratch/slipway_launch.py -m trl.scripts.sft --config C",
        ),
        ("axolotl", 1, 1, "python /scratch/slipway_launch.py -m axolotl.cli.train C"),
        (
            "axolotl",
            4,
            2,
            f"{TORCHRUN} --nnodes=2 --nproc-per-node=4 /scratch/slipway_launch.py -m axolotl.cli.train C",
        ),
        ("llama-factory", 1, 1, "llamafactory-cli train C"),
        ("llama-factory", 2, 2, "env FORCE_TORCHRUN=1 NNODES=2 NPROC_PER_NODE=2 llamafactory-cli train C"),
        ("prime-rl", 8, 1, "sft @ C"),
        ("prime-rl", 8, 2, "torchrun --nnodes=2 --nproc-per-node=8 -m prime_rl.trainer.sft.train @ C"),
        ("prime-rl-rl", 2, 1, "rl @ C"),
        ("command", 1, 1, "sh /scratch/command.sh"),
    ],
)
def test_commands_for_one_and_for_several_processes(name: str, gpus: int, nodes: int, command: str) -> None:
    kind, options, text = GOOD[name]
    trainer = adapter(kind, options)
    path = f"/scratch/{trainer.config_name}"
    given = trainer.command(trainer.parse(text), path, gpus, nodes)
    assert " ".join(given) == command.replace(" C", f" {path}")
    assert trainer.ranks(gpus, nodes) == max(1, gpus) * nodes


def test_scripts_of_ones_own() -> None:
    own = adapter("transformers", {"program": "/app/train.py", "syntax": "json", "interpreter": "/opt/bin/python"})
    assert own.config_name == "config.json"
    assert list(own.command({}, "/scratch/config.json", 1, 1)) == [
        *("/opt/bin/python", "/scratch/slipway_launch.py", "/app/train.py", "/scratch/config.json")
    ]
    assert own.parse('{"model_name_or_path": "a/b"}') == {"model_name_or_path": "a/b"}


def test_the_places_in_a_command_are_quoted_and_what_is_empty_is_left_out() -> None:
    command = adapter(
        "command", COMMAND_OPTIONS | {"command": ["run", "{dataset}/x y", "n={node_rank}", ["-r", "{resume}"]]}
    )
    awkward = replace(PLACES, dataset="/volume/a b;rm")

    assert command.programs({}, awkward) == {"command.sh": """exec run '/volume/a b;rm''/x y' n="$NODE_RANK"\n"""}
    assert command.programs({}, replace(awkward, resume="/s"))["command.sh"].endswith("-r /s\n")


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("tiny", {"anything": 1}, ["option anything"]),
        ("transformers", {"programme": "x"}, ["option programme", "program"]),
        ("transformers", {"syntax": "ini"}, ["option syntax", "yaml"]),
        ("command", {"keys": {"model": "m"}}, ["option command", "is missing"]),
        ("command", COMMAND_OPTIONS | {"command": ["{wieghts}"]}, ["no place {wieghts}", "weights"]),
        ("command", COMMAND_OPTIONS | {"keys": {"dataset": "d"}}, ["keys.model", "is missing"]),
        ("command", COMMAND_OPTIONS | {"keys": {"modle": "d"}}, ["keys.modle", "model"]),
        ("command", COMMAND_OPTIONS | {"checkpoint_format": "hf"}, ["no checkpoint format 'hf'", "hf-trainer"]),
        ("command", COMMAND_OPTIONS | {"step_directory": "step"}, ["step_directory", "{step}"]),
        ("prime-rl", {"rl_reads_volume": "yes"}, ["rl_reads_volume", "true or false"]),
    ],
)
def test_an_option_that_can_not_be_is_told(kind: str, options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(BadInputError) as caught:
        adapter(kind, options)
    for word in words:
        assert word in f"{caught.value.what} {caught.value.remedy}"


def test_a_command_without_options_says_what_it_needs() -> None:
    (problem,) = adapter("command").problems({"a": 1})
    assert "has no command" in problem.reason and "{config}" in problem.remedy


def test_step_directories_are_where_formats_are_looked_for() -> None:
    assert ADAPTERS["transformers"].step_directory(5) == "checkpoint-5"
    assert ADAPTERS["prime-rl"].step_directory(5) == "checkpoints/step_5"
    assert adapter("command", COMMAND_OPTIONS | {"checkpoints": "."}).step_directory(5) == "step_5"


def test_any_reader_of_yaml_reads_the_numbers_and_words_that_were_written() -> None:
    _, after = rendered("trl")
    kind, options, text = GOOD["trl"]
    trainer = adapter(kind, options)
    again = yaml.safe_load(trainer.render(trainer.parse(text), PLACES))
    assert again == after
    assert again["learning_rate"] == 2e-5 and again["eval_strategy"] == "no"
