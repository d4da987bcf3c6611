"""Plans of real trainers' configs: what they name is staged or proven, and what can not work is refused by its key."""

import sys
from pathlib import Path
from typing import Any

import pytest

from blocks.clusters.local.cluster import LocalCluster
from blocks.hub_access import HubAccess
from blocks.trainer_settings import Resources, TrainerSettings
from tasks.plans.check import make_plan
from tasks.plans.plan import Mark, Plan
from tasks.pod.errors import BadInputError
from tasks.runs.ask import ask_run
from tasks.runs.job import job_of
from tasks.stages.source import DatasetRequest
from tests.tasks.conftest import Desk
from tests.tasks.pod.staging.conftest import write_model
from tests.tasks.pod.trainers.configs import COMMAND_OPTIONS, GOOD

GIVEN: dict[str, dict[str, Any]] = {
    "trl": {"model_name_or_path": "slipway/tiny-lm", "dataset_name": "datasets/harbour"},
    "axolotl": {"base_model": "slipway/tiny-lm", "datasets": [{"path": "datasets/harbour", "type": "completion"}]},
    "llama-factory": {"model_name_or_path": "slipway/tiny-lm@main", "dataset_dir": "datasets/harbour"},
    "prime-rl": {"model.name": "slipway/tiny-lm", "renderer": {"name": "default"}, "data": {"type": "fake"}},
    "prime-rl-rl": {"model.name": "slipway/tiny-lm"},
    "command": {"model.path": "slipway/tiny-lm", "data.path": "datasets/harbour"},
}


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    return LocalCluster(tmp_path / "cluster", poll_seconds=0.1, gpus={"h100": 8})


def plan(desk: Desk, name: str, changes: dict[str, Any] | None = None, gpus: int | None = None, **options: Any) -> Plan:
    kind, standard, text = GOOD[name]
    wanted = {"prime-rl": 1, "prime-rl-rl": 2}.get(name, 0) if gpus is None else gpus
    trainer = TrainerSettings(kind=kind, options=standard | options, resources=Resources(gpus=wanted))
    asked = ask_run(
        "r",
        text,
        trainer,
        changes=GIVEN[name] | (changes or {}),
        volume="v",
        dataset=DatasetRequest(name="harbour", source=str(desk.assets / "harbour")),
    )
    return make_plan(desk.cluster, desk.hub, asked)


def test_what_a_config_of_each_trainer_names_is_staged_first(desk: Desk) -> None:
    for name in GIVEN:
        made = plan(desk, name)
        assert not made.blocked, (name, made.blocked)
        assert made.snapshot is not None and made.snapshot.ref.repo == "slipway/tiny-lm"
        staged = {i.subject for i in made.items if i.mark is Mark.TO_DO}
        assert ("dataset" in staged) == (name not in ("prime-rl", "prime-rl-rl"))


def test_weights_on_the_volume_need_no_hub(cluster: LocalCluster, demo_assets: Path, tmp_path: Path) -> None:
    desk = Desk(cluster, HubAccess(endpoint="http://127.0.0.1:9"), demo_assets)
    cluster.volumes.create("v", 2**30)
    write_model(tmp_path / "cluster/volumes/me/v/models/mine", size=4000)

    for name, key in (("trl", "model_name_or_path"), ("axolotl", "base_model"), ("prime-rl", "model.name")):
        made = plan(desk, name, {key: "/volume/models/mine"})
        assert not made.blocked, made.blocked
        (weights,) = [i for i in made.items if i.subject == "weights"]
        assert "TinyModel, 3,000 parameters" in weights.detail and made.snapshot is None


def test_a_training_checkpoint_as_weights_is_refused_with_the_words_that_help(
    desk: Desk, cluster: LocalCluster, tmp_path: Path
) -> None:
    cluster.volumes.create("v", 2**30)
    step = tmp_path / "cluster/volumes/me/v/runs/a/checkpoints/step_5/trainer"
    step.mkdir(parents=True)
    (step / ".metadata").write_bytes(b"x")

    (item,) = plan(desk, "prime-rl", {"model.name": "/volume/runs/a/checkpoints/step_5"}).blocked
    assert "training checkpoint" in item.detail and "[resume].dir" in item.remedy


def test_what_else_a_config_names_on_the_volume_has_to_be_there(
    desk: Desk, cluster: LocalCluster, tmp_path: Path
) -> None:
    cluster.volumes.create("v", 2**30)
    changes = {"deepspeed": "/volume/code/ds.json"}

    (item,) = plan(desk, "llama-factory", changes).blocked
    assert item.subject == "config deepspeed" and "/volume/code/ds.json is not on volume v" in item.detail

    there = tmp_path / "cluster/volumes/me/v/code/ds.json"
    there.parent.mkdir()
    there.write_text("{}")
    assert not plan(desk, "llama-factory", changes).blocked


def test_gpus_of_the_config_and_of_the_resources_have_to_agree(desk: Desk) -> None:
    (item,) = plan(desk, "prime-rl", {"deployment.num_train_gpus": 4}).blocked
    assert item.subject == "config GPUs" and "asks for 4 GPUs" in item.detail and "give the run 1" in item.detail
    assert not plan(desk, "prime-rl", {"deployment.num_train_gpus": 4}, gpus=4).blocked


def test_reinforcement_learning_runs_on_one_node(desk: Desk) -> None:
    kind, _, text = GOOD["prime-rl-rl"]
    trainer = TrainerSettings(kind=kind, resources=Resources(gpus=2, nodes=2))
    asked = ask_run("r", text, trainer, changes=GIVEN["prime-rl-rl"], volume="v")
    blocked = make_plan(desk.cluster, desk.hub, asked).blocked
    assert "trainer prime-rl: runs on one node, and 2 are asked for." in {f"{i.subject}: {i.detail}" for i in blocked}


def test_a_wrong_option_of_a_trainer_is_refused(desk: Desk) -> None:
    with pytest.raises(BadInputError, match="rl_reads_volume"):
        plan(desk, "prime-rl", rl_reads_volume=1)


def test_checkpoints_that_can_not_be_continued_are_warned_of(desk: Desk) -> None:
    for changes, words in (
        ({"save_strategy": "no"}, "no checkpoints"),
        ({"save_only_model": True}, "without an optim"),
    ):
        warnings = [i.detail for i in plan(desk, "trl", changes).items if i.mark is Mark.WARNING]
        assert any(words in text for text in warnings)


def test_the_job_of_a_command_runs_it_with_its_places_filled_in(desk: Desk, tmp_path: Path) -> None:
    script = (
        'mkdir -p "$3/checkpoints"; test -f "$1/config.json" && test -d "$2" && test -f "$4" '
        '&& printf \'{"step": 1, "loss": 2}\\n\' > "$3/metrics.jsonl"; grep -q "$2" "$4"'
    )
    options = COMMAND_OPTIONS | {"command": ["sh", "-c", script, "-", "{weights}", "{dataset}", "{output}", "{config}"]}
    trainer = TrainerSettings(kind="command", options=options)
    asked = ask_run(
        "r",
        GOOD["command"][2],
        trainer,
        changes=GIVEN["command"],
        volume="v",
        dataset=DatasetRequest(name="harbour", source=str(desk.assets / "harbour")),
    )
    progress = desk.train(asked)

    assert progress.end is not None and progress.end.state == "completed", progress.end
    assert progress.curve[1]["loss"] == 2
    assert job_of(progress.launch.plan, progress.launch.attempt).command == ("sh", "/scratch/command.sh")


def test_a_trainer_without_options_is_the_same_request_as_before_there_were_any(desk: Desk) -> None:
    asked = desk.request("r").asked()
    assert "options" not in asked["trainer"]
    assert (
        "options"
        in desk.request("r")
        .model_copy(update={"trainer": TrainerSettings(kind="prime-rl", options={"extra_keys": ["a"]})})
        .asked()["trainer"]
    )


SCHEMA = """
from pydantic import BaseModel, ConfigDict
class Data(BaseModel):
    model_config = ConfigDict(extra="forbid")
    type: str = "sft"
    name: str = ""
    batch_size: int = 1
class {name}(BaseModel):
    data: Data = Data()
"""


def python_with_schema(folder: Path) -> str:
    """A Python in which something called prime_rl is installed: it knows three keys of [data]."""
    for module, name in (("sft", "SFTConfig"), ("rl", "RLConfig")):
        file = folder / "prime_rl" / "configs" / f"{module}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SCHEMA.format(name=name))
    python = folder / "python"
    start = f"import runpy, sys; sys.path.insert(0, {str(folder)!r}); runpy.run_path(sys.argv[2], run_name='__main__')"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{start}" "$@"\n')
    python.chmod(0o755)
    return str(python)


def test_a_trainers_own_schema_is_asked_where_it_is_installed(desk: Desk, tmp_path: Path) -> None:
    python = python_with_schema(tmp_path / "theirs")
    data = {"data": {"type": "fake", "batch_size": 8}}

    accepted = plan(desk, "prime-rl", data, schema_python=python)
    refused = plan(desk, "prime-rl", {"data": data["data"] | {"seq_len": 64}}, schema_python=python)

    assert not accepted.blocked
    assert ("prime-rl's own schema", "accepts the config") in {(i.subject, i.detail) for i in accepted.items}
    (item,) = refused.blocked
    assert item.subject == "config data.seq_len" and "prime-rl refuses it" in item.detail
    assert not plan(desk, "prime-rl-rl", schema_python=python).blocked


@pytest.mark.parametrize(
    ("python", "why"), [("/nowhere/python", "can not be run"), (sys.executable, "No module named 'prime_rl'")]
)
def test_a_schema_that_can_not_be_asked_stops_the_run(desk: Desk, python: str, why: str) -> None:
    (item,) = plan(desk, "prime-rl", schema_python=python).blocked
    assert why in item.detail and "schema_python" in item.remedy
