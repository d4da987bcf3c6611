"""`slipway runs` and `slipway checkpoints`, on runs that were made without Prefect."""

import json
from pathlib import Path

import pytest

from tests.flows.cli.conftest import Slipway


def test_runs_are_listed_with_what_became_of_them(bench: Slipway) -> None:
    rows = {row["run"]: row for row in bench("runs", "list", "-o", "json").json}
    base, more = rows["base"], rows["more"]
    assert (base["state"], base["step"], base["max_steps"], base["attempts"], base["parent"]) == (
        *("completed", 6, 6, 1),
        None,
    )
    assert (more["parent"], more["parent_step"], more["step"], more["volume"]) == ("base", 4, 8, "bench")
    assert isinstance(more["loss"], float)
    table = bench("runs", "list", "--volume", "bench").out
    assert all(word in table for word in ("base", "more", "8/8", "completed"))


def test_a_run_is_shown_with_its_attempts_and_where_it_came_from(bench: Slipway) -> None:
    shown = bench("runs", "show", "more", "-o", "json").json
    assert shown["continued_from"]["run"] == "base"
    assert shown["continued_from"]["step"] == 4
    assert shown["history"][0]["end"]["cause"] == "completed"
    assert shown["weights"]["repo"] == "slipway/tiny-lm"
    text = bench("runs", "show", "more").out
    assert all(word in text for word in ("step 4 of base", "held step 4", "slipway/tiny-lm@", "8/8"))


def test_logs_are_the_attempts_own(bench: Slipway) -> None:
    assert bench("runs", "logs", "base").out
    followed = bench("runs", "logs", "base", "--follow", "--attempt", "1")
    assert "ended as completed" in followed.err
    bench("runs", "logs", "base", "--attempt", "2").refused(1, "no attempt 2")
    lines = bench("runs", "logs", "base").out.splitlines()
    for words in (["--tail", "2"], ["--tail", "2", "--follow"]):
        assert bench("runs", "logs", "base", *words).out.splitlines() == lines[-2:]


def test_stopping_what_is_over_says_so(bench: Slipway) -> None:
    answer = bench("runs", "stop", "base")
    assert (answer.code, answer.out) == (0, "")
    assert "it is completed" in answer.err
    assert bench("runs", "stop", "base", "-o", "json").json["stopped"] is False


def test_a_run_that_is_not_there_is_named_with_the_nearest(bench: Slipway) -> None:
    for words in (["runs", "show"], ["runs", "logs"], ["runs", "stop"], ["checkpoints"]):
        bench(*words, "bsae").refused(1, "'bsae'", "'base'")
    bench("runs", "show", "base", "--volume", "nowhere").refused(1, "'nowhere'")
    bench("runs", "show", "Base").refused(2, "capital letters")
    bench("checkpoints", "").refused(2, "is empty")
    bench("runs", "list", "--volume", "-x").refused(2, "'-x'")


def test_a_run_that_two_volumes_have_needs_its_volume(slipway: Slipway) -> None:
    plan = {"trainer": {"metrics": "m"}}
    for volume in ("a", "b"):
        slipway("volumes", "create", volume)
        slipway.cluster.call(volume, "runs.claim", {"run": "same", "plan": plan | {"created_at": 1}}, writable=True)
    slipway("runs", "show", "same").refused(1, "a and b", "--volume")


def test_the_checkpoints_of_a_run_say_who_holds_them(bench: Slipway) -> None:
    report = bench("checkpoints", "base", "-o", "json").json
    assert report["latest_complete"] == "checkpoints/step_6"
    assert [(c["step"], c["verdict"], c["held_by"]) for c in report["checkpoints"]] == [
        (2, "complete", []),
        (4, "complete", ["more"]),
        (6, "complete", []),
    ]
    assert "more" in bench("checkpoints", "base").out
    assert bench("checkpoints", "base", "--deep", "-o", "json").json["latest_complete"] == "checkpoints/step_6"


def test_anybodys_directory_is_looked_at_without_settings_or_volume(bench: Slipway, tmp_path: Path) -> None:
    slipway = Slipway(tmp_path)
    (tmp_path / "slipway.toml").write_text("not = [toml")
    output = bench.folder / "state" / "volumes" / "me" / "bench" / "runs" / "base"
    report = slipway("checkpoints", output, "-o", "json").json
    assert report.keys() == {"root", "latest_complete", "checkpoints"}
    assert report["root"] == str(output)
    assert report["latest_complete"] == "checkpoints/step_6"
    assert [c["step"] for c in report["checkpoints"]] == [2, 4, 6]
    assert all(
        list(c) == ["path", "step", "format", "verdict", "why", "resumable", "bytes", "fingerprint"]
        for c in report["checkpoints"]
    )
    assert slipway("checkpoints", output / "checkpoints" / "step_4", "-o", "json").json["latest_complete"] == "."
    assert slipway("checkpoints", output / "nowhere").code == 1


def test_a_torn_checkpoint_is_shown_with_what_speaks_against_it(bench: Slipway, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(
        bench.folder / "state" / "volumes" / "me" / "bench" / "runs" / "base" / "checkpoints", tmp_path / "out"
    )
    last = max((tmp_path / "out" / "step_6").iterdir(), key=lambda p: p.stat().st_size)
    last.write_bytes(last.read_bytes()[:-100])
    report = Slipway(tmp_path)("checkpoints", "./out", "-o", "json").json
    assert report["latest_complete"] == "step_4"
    assert report["checkpoints"][-1]["verdict"] == "incomplete"
    text = Slipway(tmp_path)("checkpoints", "out")
    assert report["checkpoints"][-1]["why"] in text.out
    assert "newest complete one is step_4" in text.err


def test_an_empty_directory_has_no_checkpoint(tmp_path: Path) -> None:
    answer = Slipway(tmp_path)("checkpoints", ".", "-o", "json")
    assert json.loads(answer.out) == {"root": ".", "latest_complete": None, "checkpoints": []}
    assert Slipway(tmp_path)("checkpoints", ".").code == 0


@pytest.mark.parametrize("words", [["runs", "list"], ["volumes", "list"]])
def test_lists_are_bare_arrays_and_json_is_alone_on_stdout(slipway: Slipway, words: list[str]) -> None:
    answer = slipway(*words, "-o", "json")
    assert (answer.json, answer.err) == ([], "")


def test_the_lineage_of_a_run_is_a_tree(bench: Slipway) -> None:
    for run in ("base", "more"):
        members = bench("lineage", run, "-o", "json").json
        assert [(m["run"], m["parent"], m["step"]) for m in members][:2] == [("base", None, None), ("more", "base", 4)]
    text = bench("lineage", "more").out
    assert "└─ more" in text or "├─ more" in text
    assert "from step 4, held" in text
    bench("lineage", "bsae").refused(1, "'bsae'", "'base'")


def test_two_runs_are_compared(bench: Slipway) -> None:
    found = bench("runs", "compare", "base", "more", "-o", "json").json
    assert {"key": "config.max_steps", "a": 6, "b": 8} in found["differences"]
    assert [run["run"] for run in found["runs"]] == ["base", "more"]
    assert [row["step"] for row in found["losses"]] == [5, 6]
    shown = bench("runs", "compare", "base", "more", "--html", "a.html", "--png", "a.png")
    assert "config.max_steps" in shown.out and "lowest loss" in shown.out
    assert "after its launch" in shown.out and "after its start" in shown.out
    assert (bench.folder / "a.html").read_text().startswith("<!doctype html>")
    assert (bench.folder / "a.png").read_bytes().startswith(b"\x89PNG")
    bench("runs", "compare", "base", "mroe").refused(1, "'mroe'", "'more'")


def test_what_is_on_record_of_a_run_is_all_in_its_json(bench: Slipway) -> None:
    shown = bench("runs", "show", "more", "-o", "json").json
    assert shown["config"]["max_steps"] == 8
    assert "holds/more/step_4" in shown["configs_as_run"]["1"]["text"]
    assert shown["trainer"]["kind"] == "tiny" and shown["version"] and shown["request_hash"]
    assert shown["weights"]["commit"] and shown["dataset"]["manifest_sha256"] and shown["dataset"]["version"]
    assert shown["continued_from"]["fingerprint"] and shown["lowest_loss_step"]
    assert shown["history"][0]["version"] and shown["history"][0]["end"]["metrics"]["last_step"] == 8


def test_weights_are_made_of_a_checkpoint_and_trained_on(copied: Slipway) -> None:
    made = copied("export-weights", "base@4", "--to", "four", "-o", "json").json
    assert (made["path"], made["step"], made["created"]) == ("models/four", 4, True)
    assert "They were there already" in copied("export-weights", "base@4", "--to", "models/four").err
    planned = copied(
        "train", "finetune.toml", "--set", "model.name=/volume/models/four", "--dry-run", "-o", "json"
    ).json
    assert not planned["blocked"] and planned["resolved"]["weights"]["path"] == "models/four"
    copied("export-weights", "base@5").refused(2, "no step 5", "step 6")
    copied("export-weights", "base@x").refused(2, "'x'")
    copied("export-weights", "more@8", "--to", "four").refused(2, "models/four", "--to")
