"""The look at a volume's runs: one call, incremental, and who holds what."""

from pathlib import Path

import pytest

from tasks.pod import holds
from tasks.pod.checkpoints.elsewhere import ELSEWHERE
from tasks.pod.checkpoints.look import look
from tasks.pod.errors import BadInputError, NotThereError
from tasks.pod.layout import Layout
from tests.tasks.pod.checkpoints.writers import write_tiny


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    for run, steps in {"p": (10, 20), "q": (5,)}.items():
        for step in steps:
            write_tiny(tmp_path / "runs" / run / "checkpoints" / f"step_{step}", step)
    return Layout(tmp_path)


def test_all_runs_are_looked_at_in_one_call(layout: Layout) -> None:
    asked = {"p": {"format": "tiny", "checkpoints": "checkpoints"}, "q": {"format": None, "checkpoints": "checkpoints"}}
    reports = look(layout, {"runs": asked})["reports"]
    assert reports["p"]["latest_complete"] == "checkpoints/step_20"
    assert [c["path"] for c in reports["q"]["checkpoints"]] == ["checkpoints/step_5"]
    assert look(layout, {})["reports"].keys() == {"p", "q"}
    assert look(layout, {"runs": ["p"]})["reports"]["p"]["root"] == "runs/p"


def test_a_runs_checkpoints_lie_in_the_run(layout: Layout) -> None:
    with pytest.raises(BadInputError):
        look(layout, {"runs": {"p": {"checkpoints": "../q"}}})


def test_a_run_without_a_directory_has_an_empty_report(layout: Layout) -> None:
    assert look(layout, {"runs": ["new"]})["reports"]["new"]["checkpoints"] == []


def test_one_step_by_its_path(layout: Layout) -> None:
    report = look(layout, {"path": "/volume/runs/p/checkpoints/step_10"})["reports"]["p"]
    assert report["latest_complete"] == "checkpoints/step_10"
    assert len(report["checkpoints"]) == 1


def test_a_directory_by_its_path(layout: Layout) -> None:
    write_tiny(layout.root / "other" / "step_1", 1)
    assert look(layout, {"path": "other"})["reports"]["other"]["latest_complete"] == "step_1"
    assert look(layout, {"path": "runs/p/checkpoints"})["reports"]["p"]["latest_complete"] == "checkpoints/step_20"
    with pytest.raises(BadInputError):
        look(layout, {"path": "../x"})
    with pytest.raises(NotThereError):
        look(layout, {"path": "runs/p/checkpoints/step_11"})


def test_what_a_deep_look_found_is_not_forgotten_by_the_next_cheap_one(layout: Layout) -> None:
    model = layout.run("p") / "checkpoints/step_20/model.safetensors"
    content = bytearray(model.read_bytes())
    content[-1] ^= 1
    model.write_bytes(content)
    marker = model.parent / "complete.json"
    marker.write_bytes(marker.read_bytes())
    for deep, latest in ((False, "step_20"), (True, "step_10"), (False, "step_10")):
        report = look(layout, {"runs": ["p"], "deep": deep})["reports"]["p"]
        assert report["latest_complete"] == f"checkpoints/{latest}"


def test_a_damaged_cache_is_only_a_hint_lost(layout: Layout) -> None:
    first = look(layout, {"runs": ["p"]})
    cache = layout.records("p") / "checkpoints.json"
    assert look(layout, {"runs": ["p"]}) == first
    for damaged in ("{", "[]", '{"checkpoints": 3}', '{"checkpoints": [1, {"checkpoint": {}}]}'):
        cache.write_text(damaged)
        assert look(layout, {"runs": ["p"]}) == first


def test_who_holds_a_checkpoint_is_shown(layout: Layout) -> None:
    chosen = look(layout, {"runs": ["p"]})["reports"]["p"]["checkpoints"][0]
    source = {"source": "runs/p/checkpoints/step_10", "fingerprint": chosen["fingerprint"], "mode": "link"}
    for fork in ("f", "g"):
        holds.make(layout, {"fork": fork, **source})
    shown = look(layout, {"runs": ["p"]})["reports"]["p"]["checkpoints"]
    assert [c["held_by"] for c in shown] == [["f", "g"], []]


def test_what_a_link_has_led_out_of_the_run_is_told_of_and_not_looked_into(layout: Layout, tmp_path: Path) -> None:
    away = tmp_path / "runs" / "away"
    for run in ("home", "steps", "step"):
        write_tiny(away / run / "checkpoints" / "step_30", 30)
    (tmp_path / "runs" / "home").symlink_to(away / "home")
    (tmp_path / "runs" / "steps").mkdir()
    (tmp_path / "runs" / "steps" / "checkpoints").symlink_to(away / "steps" / "checkpoints")
    write_tiny(tmp_path / "runs" / "step" / "checkpoints" / "step_20", 20)
    (tmp_path / "runs" / "step" / "checkpoints" / "step_30").symlink_to(away / "step" / "checkpoints" / "step_30")

    asked = {run: {"format": "tiny", "checkpoints": "checkpoints"} for run in ("p", "home", "steps", "step")}
    reports = look(layout, {"runs": asked})["reports"]

    assert reports["p"]["latest_complete"] == "checkpoints/step_20"  # a neighbour's link is its own affair
    assert reports["step"]["latest_complete"] == "checkpoints/step_20"
    for run, path in {"home": "checkpoints", "steps": "checkpoints", "step": "checkpoints/step_30"}.items():
        found = reports[run]["checkpoints"][-1]
        assert (found["path"], found["verdict"], found["resumable"]) == (path, "unknown", False)
        assert found["why"].startswith(f"{ELSEWHERE}, to {away.resolve()}")


def test_a_link_that_stays_in_the_run_is_followed(layout: Layout) -> None:
    (layout.run("p") / "checkpoints").rename(layout.run("p") / "saved")
    (layout.run("p") / "checkpoints").symlink_to("saved")
    report = look(layout, {"runs": {"p": {"format": "tiny", "checkpoints": "checkpoints"}}})["reports"]["p"]
    assert report["latest_complete"] == "checkpoints/step_20"
