"""`slipway train|fork|stage` up to the launch: what they show and what they refuse. No Prefect server is there."""

import shutil
from pathlib import Path

import pytest

from tests.flows.cli.conftest import Slipway


def test_a_dry_run_shows_the_plan_and_changes_nothing(bench: Slipway) -> None:
    answer = bench("train", "finetune.toml", "--dry-run", "--name", "later")
    assert (answer.code, answer.out) == (0, "")
    assert all(
        word in answer.err for word in ("Plan of run later", "volume bench", "slipway/tiny-lm", "datasets/harbour")
    )
    plan = bench("train", "finetune.toml", "--dry-run", "--name", "later", "-o", "json").json
    assert (plan["run"], plan["volume"], plan["blocked"]) == ("later", "bench", False)
    assert {item["mark"] for item in plan["items"]} <= {"ready", "to do", "warning"}
    assert [row["run"] for row in bench("runs", "list", "-o", "json").json] == ["base", "more"]


def test_a_dry_run_of_a_fork_names_the_checkpoint(bench: Slipway) -> None:
    words = ["fork", "base", "--max-steps", "9", "--set", "optim.lr=0.002", "--dry-run", "-o", "json"]
    plan = bench(*words).json
    assert plan["resolved"]["source"]["step"] == 6
    assert plan["request"]["config"]["max_steps"] == 9
    assert plan["request"]["config"]["optim"]["lr"] == 0.002
    assert bench(*words, "--step", "2").json["resolved"]["source"]["path"] == "runs/base/checkpoints/step_2"
    assert bench(*words, "--hold", "copy").json["resolved"]["source"]["mode"] == "copy"


def test_a_fork_reads_its_weights_where_its_parent_does_unless_it_is_told(bench: Slipway) -> None:
    words = ["fork", "base", "--max-steps", "9", "--dry-run", "-o", "json"]
    plain = bench(*words).json["request"]["weights"]
    asked = bench(*words, "--weights", "hydrate", "--weights-sha256").json
    added = bench(*words, "--weights-fallback").json["request"]["weights"]
    assert plain == {"placement": "volume", "fallback": False, "sha256": False}
    assert asked["request"]["weights"] == {"placement": "hydrate", "fallback": False, "sha256": True}
    assert any("are copied to scratch" in item["detail"] for item in asked["items"])
    assert added == {"placement": "volume", "fallback": True, "sha256": False}
    blocked = bench(*words, "--weights", "node").json
    assert blocked["blocked"] and any("has no node cache" in item["detail"] for item in blocked["items"])


def test_the_volume_of_the_command_line_beats_the_configs(bench: Slipway) -> None:
    plan = bench("train", "finetune.toml", "--volume", "other", "--volume-size", "2Gi", "--dry-run", "-o", "json")
    (item,) = [i for i in plan.json["items"] if i["subject"] == "volume other"]
    assert item["detail"] == "is created with 2Gi"
    assert plan.code == 1  # the dataset is not on a new volume
    assert [v["name"] for v in bench("volumes", "list", "-o", "json").json] == ["bench"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"# nothing\n", "is empty"),
        (b'volume = "bench"\nmax_steps = = 3\n', "line 2, column 13"),
        (b'volume = "bench"\n[model]\nname = "caf\xe9"\n', "line 3, column 12"),
        (b'volume = "bench"\n[model\n', "line 2"),
    ],
)
def test_a_config_that_is_no_toml_is_refused_with_its_place(slipway: Slipway, content: bytes, reason: str) -> None:
    (slipway.folder / "bad.toml").write_bytes(content)
    slipway("train", "bad.toml").refused(2, reason)


def test_a_config_that_can_not_be_read_is_refused(slipway: Slipway) -> None:
    slipway("train", "nothing.toml").refused(2, "no config 'nothing.toml'")
    slipway("train", ".").refused(2, "is a directory")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["max_stps=3"], ["config max_stps", "Did you mean max_steps?"]),
        (["optim.lrr=3"], ["config optim.lrr", "Did you mean optim.lr?"]),
        (["optim.lr=fast"], ["config optim.lr", "a number"]),
        (["max_steps=0"], ["config max_steps"]),
        ([f"max_steps={10**400}"], ["config max_steps", "a whole number"]),
        ([f"optim.lr={10**400}"], ["config optim.lr", "a number"]),
        (["data.batch_size=1000000000000"], ["config data.batch_size", "at most 4096"]),
        (["a." * 3000 + "b=1"], ["3001 parts"]),
        (["optim.lr"], ["'optim.lr' sets no key"]),
        (["max_steps.x=1"], ["max_steps is a value"]),
        (["=1"], ["no dotted key"]),
        (["volume=Bench"], ["capital letters"]),
        (["volume_size=1TB"], ["'1TB' is not a volume size"]),
    ],
)
def test_a_config_that_can_not_work_is_refused(bench: Slipway, changes: list[str], words: list[str]) -> None:
    bench("train", "finetune.toml", *(w for c in changes for w in ("--set", c))).refused(2, *words)


@pytest.mark.parametrize(
    ("words", "reasons"),
    [
        (["--name", "Run_1"], ["run name 'Run_1'"]),
        (["--name", ""], ["is empty"]),
        (["--name", "a" * 49], ["49 characters"]),
        (["--volume", "my_volume"], ["'my_volume'"]),
        (["--volume-size", "11Ti"], ["11Ti is over the largest"]),
        (["--hub", "pubic"], ["no hub 'pubic'", "'public'"]),
        (["--trainer", "tinny"], ["no trainer 'tinny'", "'tiny'"]),
        (["--cluster", "far"], ["no cluster 'far'"]),
        (["--dataset", "harbour"], ["names no dataset"]),
        (["--dataset", "a b=."], ["'a b' can not be the name of a dataset"]),
        (["--dataset", "a/../x=."], ["'../x' can not be the version"]),
        (["--dataset", "a="], ["source", "empty"]),
        (["--dataset", "a=ftp://x/y"], ["is no source"]),
    ],
)
def test_options_that_can_not_work_are_refused(bench: Slipway, words: list[str], reasons: list[str]) -> None:
    bench("train", "finetune.toml", *words).refused(2, *reasons)


def test_a_trainer_of_an_unknown_kind_is_refused(slipway: Slipway) -> None:
    text = (slipway.folder / "slipway.toml").read_text()
    slipway.write("slipway.toml", f'{text}\n[trainers.tiny]\nkind = "tinny"\n')
    slipway("train", "finetune.toml").refused(2, "no trainer 'tinny'", "'tiny'")


def test_a_run_without_a_volume_is_refused(slipway: Slipway) -> None:
    slipway.write("plain.toml", 'max_steps = 3\n[model]\nname = "a/b"\n')
    slipway("train", "plain.toml").refused(2, "names no volume", "--volume")


def test_a_name_that_another_run_has_is_refused_with_the_difference(bench: Slipway) -> None:
    answer = bench("train", "finetune.toml", "--name", "base", "--set", "optim.lr=0.5")
    answer.refused(1, "run base", "optim", "0.5", "Choose another name")
    assert bench("runs", "show", "base", "-o", "json").json["attempts"] == 1


def test_a_revision_that_does_not_exist_is_refused_before_anything_is_made(bench: Slipway) -> None:
    bench("train", "finetune.toml", "--set", "model.name=slipway/tiny-lm@nope").refused(1, "no revision 'nope'")
    bench("stage", "model", "slipway/tiny-lm@nope", "--volume", "fresh").refused(1, "no revision 'nope'")
    bench("stage", "model", "slipway/nothing", "--volume", "fresh").refused(1, "slipway/nothing")
    bench("stage", "model", "a b", "--volume", "fresh").refused(2, "no model on a Hub")
    bench("stage", "model", "slipway/tiny-lm", "--volume", "Fresh").refused(2, "capital letters")
    bench("stage", "model", "slipway/tiny-lm", "--volume", "fresh", "--volume-size", "0").refused(2, "'0'")
    bench("stage", "dataset", "../x", ".", "--volume", "fresh").refused(2, "'../x' can not be the name")
    assert [v["name"] for v in bench("volumes", "list", "-o", "json").json] == ["bench"]


def test_a_step_that_is_not_there_is_refused_with_the_newest_complete_one(bench: Slipway) -> None:
    bench("fork", "base", "--max-steps", "9", "--step", "5").refused(1, "no step 5", "newest complete one is step 6")
    bench("fork", "base", "--max-steps", "9", "--step", "0").refused(2, "'0' is no step")
    bench("fork", "base", "--max-steps", "9", "--step", "last").refused(2, "'last' is no step")


def test_an_incomplete_step_is_refused_with_what_speaks_against_it(bench: Slipway) -> None:
    steps = bench.folder / "state" / "volumes" / "me" / "bench" / "runs" / "base" / "checkpoints"
    shutil.copytree(steps / "step_6", steps / "step_8")
    (steps / "step_8" / "complete.json").unlink()
    try:
        answer = bench("fork", "base", "--max-steps", "9", "--step", "8")
        answer.refused(1, "step 8 of run base is incomplete", "complete.json", "newest complete one is step 6")
        assert (
            bench("fork", "base", "--max-steps", "9", "--dry-run", "-o", "json").json["resolved"]["source"]["step"] == 6
        )
    finally:
        shutil.rmtree(steps / "step_8")


def test_a_fork_with_nothing_left_to_train_is_refused(bench: Slipway) -> None:
    bench("fork", "base").refused(2, "config max_steps", "nothing left to train")
    bench("fork", "bsae").refused(1, "'bsae'", "'base'")


def test_blocks_are_not_saved_where_they_would_be_lost(slipway: Slipway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(slipway.folder / "nowhere"))
    slipway("register").refused(2, "no Prefect server", "make up")


def test_the_server_that_prefects_own_settings_name_is_found(
    slipway: Slipway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from flows.cli.prefect_server import configured_server

    monkeypatch.chdir(slipway.folder)
    for name in ("PREFECT_API_URL", "PREFECT_PROFILE", "PREFECT_PROFILES_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    assert configured_server() is None
    (tmp_path / "profiles.toml").write_text('active = "a"\n[profiles.a]\nPREFECT_API_URL = "http://a/api/"\n')
    assert configured_server() == "http://a/api"
    slipway.write("prefect.toml", '[api]\nurl = "http://b/api"\n')
    assert configured_server() == "http://b/api"
    monkeypatch.setenv("PREFECT_API_URL", "http://c/api")
    assert configured_server() == "http://c/api"
