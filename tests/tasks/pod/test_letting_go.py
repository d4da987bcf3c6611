"""The end of a hold and of a run: only when nobody needs them, and never so that something silently begins anew."""

import shutil
from pathlib import Path

import pytest

from tasks.pod import holds, letting_go, retention, runs
from tasks.pod.errors import ChangedError, NotThereError
from tasks.pod.layout import Layout
from tasks.pod.prepare import prepare
from tests.tasks.pod.checkpoints.writers import write_tiny
from tests.tasks.pod.retained import attempt, claim, hold, source, step


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Run `p` with two steps, and its fork `f` that holds the first."""
    layout = Layout(tmp_path)
    (tmp_path / "models/m").mkdir(parents=True)
    claim(layout, "p", 10, 20)
    claim(layout, "f", source={**source(layout, "p", 10), "hold": "holds/f/step_10"})
    hold(layout, "f", "p", 10)
    return layout


def ask(layout: Layout, run: str, number: int) -> dict[str, object]:
    asked = {"run": run, "attempt": number, "job": "j"}
    resume: dict[str, object] = prepare(layout, asked)["attempt"]["resume"]
    return resume


def test_a_fork_lets_go_once_it_has_a_newer_complete_step_and_goes_on_from_that(layout: Layout) -> None:
    with pytest.raises(ChangedError, match="no complete checkpoint of its own after step 10"):
        letting_go.release(layout, {"run": "f"})
    write_tiny(step(layout, "f", 15), 15)
    (step(layout, "f", 15) / "complete.json").unlink()
    with pytest.raises(ChangedError):
        letting_go.release(layout, {"run": "f"})
    write_tiny(step(layout, "f", 15), 15)
    done = letting_go.release(layout, {"run": "f"})
    assert (done["released"], done["source"], done["own"]["step"]) == (True, "runs/p/checkpoints/step_10", 15)
    assert holds.holders(layout) == {}
    assert not letting_go.release(layout, {"run": "f"})["released"]
    attempt(layout, "f", 1, None, ended=True)
    assert ask(layout, "f", 2)["path"] == "runs/f/checkpoints/step_15"
    retention.prune(layout, {"runs": ["p"], "keep_last": 1, "grace_seconds": 0})
    assert not step(layout, "p", 10).exists()


def test_asked_for_again_a_fork_that_let_go_does_not_hold_anew(layout: Layout) -> None:
    write_tiny(step(layout, "f", 15), 15)
    letting_go.release(layout, {"run": "f"})
    shutil.rmtree(layout.run("p"))
    asked = {"fork": "f", "source": "runs/p/checkpoints/step_10", "fingerprint": "any"}
    assert holds.make(layout, asked)["mode"] == "released"
    assert not layout.hold("f").exists()


def test_a_fork_that_let_go_and_lost_its_own_steps_never_begins_from_base_weights(layout: Layout) -> None:
    write_tiny(step(layout, "f", 15), 15)
    letting_go.release(layout, {"run": "f"})
    shutil.rmtree(layout.run("f"))
    with pytest.raises(NotThereError, match="released step 10"):
        ask(layout, "f", 1)


def test_a_run_that_is_no_fork_has_nothing_to_let_go_of(layout: Layout) -> None:
    with pytest.raises(NotThereError, match="is no fork"):
        letting_go.release(layout, {"run": "p"})


def test_a_run_whose_checkpoints_are_held_is_not_deleted(layout: Layout) -> None:
    with pytest.raises(ChangedError, match="held by f"):
        letting_go.delete(layout, {"run": "p"})
    holds.release(layout, {"fork": "f"})
    with pytest.raises(ChangedError, match="held by f"):  # it is planned: it is about to
        letting_go.delete(layout, {"run": "p"})
    assert step(layout, "p", 10).is_dir()


def test_a_live_run_is_not_deleted(layout: Layout) -> None:
    attempt(layout, "f", 1, None, ended=False)
    with pytest.raises(ChangedError, match="'f' is live"):
        letting_go.delete(layout, {"run": "f"})


def test_a_deleted_run_keeps_its_records_and_gives_up_its_hold_and_its_bytes(layout: Layout) -> None:
    write_tiny(step(layout, "f", 15), 15)
    attempt(layout, "f", 1, None, ended=True)
    deleted = letting_go.delete(layout, {"run": "f"})
    assert deleted["created"] and deleted["freed_bytes"] > 0
    assert not layout.run("f").exists() and holds.holders(layout) == {}
    shown = runs.show(layout, {"run": "f"})
    assert shown["plan"]["resolved"]["source"]["run"] == "p" and shown["deleted_at"]
    assert [r["run"] for r in runs.list_runs(layout, {})["runs"]] == ["p"]
    assert not letting_go.delete(layout, {"run": "f"})["created"]
    with pytest.raises(ChangedError, match="was deleted"):
        ask(layout, "f", 2)
    assert letting_go.delete(layout, {"run": "p"})["created"]


def test_a_killed_deletion_is_finished_by_prune(layout: Layout) -> None:
    write_tiny(step(layout, "f", 15), 15)
    runs.deleted_record(layout, "f").write_text("{}")
    answer = retention.prune(layout, {"grace_seconds": 0})
    assert answer["leftovers"]["freed"] > 0
    assert not layout.run("f").exists() and holds.holders(layout) == {}
