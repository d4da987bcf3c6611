"""Where an attempt goes on: never from an older state, from base weights or from a mixture without being told to."""

import os
import shutil
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tasks.pod import holds, runs
from tasks.pod.checkpoints.find import find
from tasks.pod.checkpoints.fingerprint import fingerprint
from tasks.pod.errors import ChangedError, NotThereError
from tasks.pod.layout import Layout
from tasks.pod.prepare import prepare
from tests.tasks.pod.checkpoints.writers import safetensors, write_tiny

CORPUS = Path(__file__).parents[2] / "data/checkpoints"
BASE = {"kind": "base", "path": None, "step": 0, "fingerprint": None}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "models/m").mkdir(parents=True)
    layout = Layout(tmp_path)
    claim(layout, "r")
    return layout


def claim(layout: Layout, run: str, *, max_steps: int | None = 100, source: dict[str, Any] | None = None) -> None:
    plan = {
        "run": run,
        "max_steps": max_steps,
        "created_at": runs.now(),
        "trainer": {"kind": "tiny", "checkpoint_format": None, "checkpoints": "checkpoints", "metrics": "m.jsonl"},
        "resolved": {"weights": {"path": "models/m"}, "dataset": None, "source": source},
    }
    runs.claim(layout, {"run": run, "plan": plan})


def step(layout: Layout, number: int, run: str = "r") -> Path:
    return write_tiny(layout.run(run) / f"checkpoints/step_{number}", number)


def tear(path: Path) -> Path:
    (path / "complete.json").unlink()
    return path


def doubt(path: Path) -> Path:
    """The marker is older than what it names, as in a copied tree: only a person can tell."""
    os.utime(path / "complete.json", ns=(5, 5))
    return path


def ask(layout: Layout, attempt: int = 1, *trust: str, run: str = "r") -> dict[str, Any]:
    asked = {"run": run, "attempt": attempt, "job": f"{run}-a{attempt}", "trust": list(trust)}
    prepared: dict[str, Any] = prepare(layout, asked)["attempt"]
    return prepared


def fork(layout: Layout, run: str = "f", number: int = 40) -> dict[str, Any]:
    """A fork of step 40 of the run `r`, planned and held."""
    path = step(layout, number)
    source = {
        "run": "r",
        "path": layout.relative(path),
        "step": number,
        "fingerprint": fingerprint(path),
        "hold": f"holds/{run}/{path.name}",
    }
    claim(layout, run, source=source)
    holds.make(layout, {"fork": run, "source": source["path"], "fingerprint": source["fingerprint"]})
    return source


def test_the_newest_complete_step_of_the_run_itself_is_taken(layout: Layout) -> None:
    for number in (9, 10, 100, 20):
        step(layout, number)
    newest = layout.run("r") / "checkpoints/step_20"
    shutil.rmtree(layout.run("r") / "checkpoints/step_100")
    assert ask(layout)["resume"] == {
        "kind": "own",
        "path": "runs/r/checkpoints/step_20",
        "step": 20,
        "fingerprint": fingerprint(newest),
    }


def test_without_a_checkpoint_it_begins_from_base_weights(layout: Layout) -> None:
    assert ask(layout)["resume"] == BASE


def test_torn_steps_are_moved_to_where_no_trainer_looks_and_reported(layout: Layout) -> None:
    step(layout, 10)
    tear(step(layout, 20))
    (layout.run("r") / "checkpoints/step_30").mkdir()
    attempt = ask(layout)
    assert attempt["resume"]["step"] == 10
    assert [(torn["path"], torn["to"]) for torn in attempt["set_aside"]] == [
        ("checkpoints/step_20", ".slipway/runs/r/torn/1/checkpoints/step_20"),
        ("checkpoints/step_30", ".slipway/runs/r/torn/1/checkpoints/step_30"),
    ]
    assert "complete.json is missing" in attempt["set_aside"][0]["why"]
    assert [path.name for path in layout.run("r").glob("**/*step*")] == ["step_10"]
    assert (layout.root / attempt["set_aside"][0]["to"] / "model.safetensors").is_file()


def test_a_start_from_base_clears_what_an_earlier_attempt_left(layout: Layout) -> None:
    """A trainer refuses to start in a directory that is not empty."""
    tear(step(layout, 10))
    (layout.run("r") / "metrics.jsonl").write_text("{}\n")
    attempt = ask(layout)
    assert attempt["resume"] == BASE
    assert not list(layout.run("r").iterdir())
    assert sorted(torn["path"] for torn in attempt["set_aside"]) == ["checkpoints", "metrics.jsonl"]


def test_a_newer_step_that_can_not_be_proven_stops_the_launch_and_changes_nothing(layout: Layout) -> None:
    step(layout, 10)
    doubt(step(layout, 20))
    torn = tear(step(layout, 30))
    with pytest.raises(ChangedError, match="--trust checkpoints/step_20"):
        ask(layout)
    assert torn.is_dir()
    assert not (layout.records("r") / "attempts").exists()


@pytest.mark.parametrize("said", ["checkpoints/step_20", "runs/r/checkpoints/step_20"])
def test_trust_takes_it_and_is_recorded(layout: Layout, said: str) -> None:
    step(layout, 10)
    doubt(step(layout, 20))
    attempt = ask(layout, 1, said)
    assert (attempt["resume"]["step"], attempt["trusted"]) == (20, ["checkpoints/step_20"])


def test_trust_in_one_step_is_no_trust_in_another_or_in_a_torn_one(layout: Layout) -> None:
    doubt(step(layout, 20))
    doubt(step(layout, 30))
    with pytest.raises(ChangedError, match="step_30"):
        ask(layout, 1, "checkpoints/step_20")
    tear(layout.run("r") / "checkpoints/step_30")
    attempt = ask(layout, 1, "checkpoints/step_20", "checkpoints/step_30")
    assert (attempt["resume"]["step"], attempt["trusted"]) == (20, ["checkpoints/step_20"])


def test_an_older_step_that_can_not_be_proven_is_left_alone(layout: Layout) -> None:
    doubt(step(layout, 10))
    step(layout, 20)
    attempt = ask(layout)
    assert (attempt["resume"]["step"], attempt["set_aside"]) == (20, [])


def test_checkpoints_of_weights_only_are_never_trained_over(layout: Layout) -> None:
    """Nothing can go on from them, and beginning again from base weights would be silent: it is refused."""
    with tarfile.open(CORPUS / "hf-save-only-model.tar.gz") as tar:
        tar.extractall(layout.root, filter="data")
    run = "hf-save-only-model"
    claim(layout, run)
    with pytest.raises(ChangedError, match=r"checkpoint-6 holds weights only.*/volume/runs/hf-save-only-model/"):
        ask(layout, run=run)
    assert (layout.run(run) / "checkpoint-6").is_dir()


def test_trust_does_not_make_weights_a_checkpoint(layout: Layout) -> None:
    kept = layout.run("r") / "step_40"
    kept.mkdir(parents=True)
    (kept / "config.json").write_text('{"model_type": "m"}')
    (kept / "model.safetensors").write_bytes(safetensors({"w": ("F32", [2], bytes(8))}))
    with pytest.raises(ChangedError, match="--trust step_40"):
        ask(layout)
    with pytest.raises(ChangedError, match="step_40 holds weights only"):
        ask(layout, 1, "step_40")
    step(layout, 30)
    with pytest.raises(ChangedError, match="step_40"):
        ask(layout)
    assert kept.is_dir()
    shutil.rmtree(kept)
    assert ask(layout)["resume"]["step"] == 30


def test_nothing_left_to_train_is_completed_at_once(layout: Layout) -> None:
    step(layout, 100)
    attempt = ask(layout)
    assert attempt["job"] is None
    (seen,) = runs.read_attempts(layout, "r")
    assert (seen["end"]["state"], "step 100" in seen["end"]["reason"]) == ("completed", True)


def test_a_fork_begins_from_what_it_holds_and_goes_on_from_its_own(layout: Layout) -> None:
    source = fork(layout)
    shutil.rmtree(layout.run("r"))
    resume = ask(layout, run="f")["resume"]
    assert resume == {"kind": "hold", "path": "holds/f/step_40", "step": 40, "fingerprint": source["fingerprint"]}
    runs.end(layout, {"run": "f", "attempt": 1, "end": {"state": "lost", "cause": "lost", "reason": ""}})
    step(layout, 50, "f")
    assert ask(layout, 2, run="f")["resume"]["path"] == "runs/f/checkpoints/step_50"


def test_a_hold_that_changed_stops_the_attempt(layout: Layout) -> None:
    fork(layout)
    with (layout.run("r") / "checkpoints/step_40/model.safetensors").open("r+b") as file:
        file.write(b"other")
    with pytest.raises(ChangedError, match="no longer the checkpoint that was chosen"):
        ask(layout, run="f")


def test_a_hold_that_is_gone_never_becomes_base_weights(layout: Layout) -> None:
    fork(layout)
    holds.release(layout, {"fork": "f"})
    with pytest.raises(NotThereError, match="holds no checkpoint"):
        ask(layout, run="f")


def test_an_attempt_waits_for_the_end_of_the_one_before(layout: Layout) -> None:
    ask(layout)
    with pytest.raises(ChangedError, match="each must have ended"):
        ask(layout, 2)


def test_inputs_that_are_gone_are_named(layout: Layout) -> None:
    (layout.root / "models/m").rmdir()
    with pytest.raises(NotThereError, match="weights of run 'r' are no longer on the volume at models/m"):
        ask(layout)


def test_many_at_once_decide_the_same_and_clear_once(layout: Layout) -> None:
    step(layout, 10)
    for number in range(11, 40):
        tear(step(layout, number))
    with ThreadPoolExecutor(8) as pool:
        attempts = list(pool.map(lambda _: ask(layout), range(16)))
    assert all(attempt == attempts[0] for attempt in attempts)
    assert len(attempts[0]["set_aside"]) == 29
    assert [c.step for c in find(layout.run("r")).checkpoints] == [10]


def test_what_a_killed_call_moved_is_not_in_the_way_of_the_next(layout: Layout) -> None:
    step(layout, 10)
    tear(step(layout, 20))
    tear(write_tiny(layout.records("r") / "torn/1/checkpoints/step_20", 20))
    assert ask(layout)["set_aside"][0]["to"] == ".slipway/runs/r/torn/1/checkpoints/step_20.2"


def test_a_run_whose_newest_checkpoints_are_elsewhere_does_not_begin_again(layout: Layout, tmp_path: Path) -> None:
    away = write_tiny(tmp_path / "away/step_30", 30)
    (layout.run("r") / "checkpoints").mkdir(parents=True)
    link = layout.run("r") / "checkpoints/step_30"
    link.symlink_to(away)
    with pytest.raises(ChangedError, match=r"checkpoints/step_30: a link leads out"):
        ask(layout, 1, "checkpoints/step_30")  # nobody can vouch for what the run does not have
    step(layout, 40)
    assert ask(layout)["resume"]["step"] == 40

    claim(layout, "s")
    layout.run("s").mkdir(parents=True)
    (layout.run("s") / "checkpoints").symlink_to(away.parent)
    with pytest.raises(ChangedError, match="checkpoints: a link leads out"):
        ask(layout, run="s")
    (layout.run("s") / "checkpoints").unlink()
    assert ask(layout, run="s")["resume"] == BASE
    assert away.is_dir()
