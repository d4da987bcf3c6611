"""`slipway prune`: says what it would do, asks, does it."""

from pathlib import Path

import pytest

from tasks.pod.layout import Layout
from tests.flows.cli.conftest import Slipway
from tests.tasks.pod.retained import claim, hold, step


@pytest.fixture
def layout(slipway: Slipway) -> Layout:
    slipway("volumes", "create", "v", "--size", "1Gi")
    (root,) = slipway.folder.glob("state/volumes/*/v")
    layout = Layout(root)
    claim(layout, "r", 10, 20, 30, 40)
    claim(layout, "f")
    hold(layout, "f", "r", 20)
    return layout


NOW = ("--grace", "0")


def left(layout: Layout) -> list[str]:
    return sorted(path.name for path in (layout.run("r") / "checkpoints").iterdir())


def test_it_shows_what_goes_with_bytes_and_deletes_it_once_confirmed(slipway: Slipway, layout: Layout) -> None:
    shown = slipway("prune", "v", "--keep-last", "1", *NOW, stdin="n\n")
    assert shown.code == 0
    assert "checkpoints/step_10" in shown.out and "checkpoints/step_40 is complete" in shown.out
    assert "step_20" not in shown.out
    assert "Nothing was deleted." in shown.err and len(left(layout)) == 4
    done = slipway("prune", "v", "--keep-last", "1", *NOW, stdin="y\n")
    assert "2 are gone" in done.err
    assert left(layout) == ["step_20", "step_40"]
    assert "There is nothing to take away." in slipway("prune", "v", "--keep-last", "1", *NOW).err


def test_a_dry_run_deletes_nothing_and_nobody_to_ask_is_an_error(slipway: Slipway, layout: Layout) -> None:
    assert slipway("prune", "v", "--keep-last", "1", "--dry-run", "--yes", *NOW).code == 0
    refused = slipway("prune", "v", "--keep-last", "1", *NOW)
    assert refused.code == 2 and "--yes" in refused.err
    assert len(left(layout)) == 4


def test_json_says_what_went_and_what_stayed_and_why(slipway: Slipway, layout: Layout) -> None:
    report = slipway("prune", "v", "--run", "r", "--keep-every", "40", "--yes", "-o", "json", *NOW).json
    (run,) = report["runs"]
    assert [(d["path"], d["done"]) for d in run["deleted"]] == [
        ("checkpoints/step_10", True),
        ("checkpoints/step_30", True),
    ]
    assert [k["why"] for k in run["kept"]] == ["held by f", "the newest complete one"]
    assert report["freed_bytes"] > 0


def test_the_grace_time_is_a_quarter_of_an_hour(slipway: Slipway, layout: Layout) -> None:
    assert "nothing to take away" in slipway("prune", "v", "--keep-last", "1", "--yes").err
    assert step(layout, "r", 10).is_dir()


def test_what_can_not_be_is_refused(slipway: Slipway, layout: Layout) -> None:
    slipway("prune", "v", "--run", "x", "--dry-run").refused(1, "no run 'x'", "f, r")
    slipway("prune", "w").refused(1, "'w'")
    assert slipway("prune", "v", "--keep-last", "0").code == 2


@pytest.mark.parametrize(("text", "words"), [("keep_lest = 3", "keep_last"), ("keep_last = 0", "at least 1")])
def test_a_policy_in_a_config_is_checked(slipway: Slipway, text: str, words: str) -> None:
    config = Path(slipway.folder / "finetune.toml").read_text()
    slipway.write("policy.toml", f"{config}\n[retention]\n{text}\n")
    slipway("train", "policy.toml", "--dry-run").refused(2, "retention.keep_l", words)


def test_a_policy_in_a_config_is_in_the_plan_and_a_fork_inherits_it(bench: Slipway) -> None:
    config = (bench.folder / "finetune.toml").read_text()
    bench.write("policy.toml", f"{config}\n[retention]\nkeep_last = 2\nkeep_every = 4\n")
    plan = bench("train", "policy.toml", "--name", "kept", "--dry-run", "-o", "json").json
    assert plan["request"]["retention"] == {"keep_last": 2, "keep_every": 4}
    assert "retention" not in plan["request"]["config"]
    detail = "`slipway prune` keeps the last 2 and every 4 steps, and the newest complete step"
    assert {"subject": "retention", "mark": "ready", "detail": detail, "remedy": ""} in plan["items"]
    again = bench("train", "policy.toml", "--name", "base", "--dry-run", "-o", "json").json
    assert [i["subject"] for i in again["items"] if i["mark"] == "warning"] == ["retention"]
    changed = ("--set", "retention.keep_last=1", "--max-steps", "9", "--name", "x")
    fork = bench("fork", "base", *changed, "--dry-run", "-o", "json").json
    assert fork["request"]["retention"] == {"keep_last": 1, "keep_every": None}
