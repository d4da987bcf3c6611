"""A job that its queue took back and started again goes on as the next attempt: never twice, never from a torn step."""

from pathlib import Path
from typing import Any

import pytest

from tasks.pod import records, runs
from tasks.pod.again import QUEUE, attempt_to_begin
from tasks.pod.errors import ChangedError, StartedBeforeError
from tasks.pod.layout import Layout
from tasks.pod.observe import observe
from tasks.pod.prepare import prepare
from tests.tasks.pod.test_prepare import ask, claim, doubt, step, tear


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv(QUEUE, "team")
    (tmp_path / "models/m").mkdir(parents=True)
    layout = Layout(tmp_path)
    claim(layout, "r")
    return layout


def plan(layout: Layout, nodes: int = 1) -> dict[str, Any]:
    return runs.read_plan(layout, "r") | {"request": {"trainer": {"resources": {"nodes": nodes}}}}


def begin(layout: Layout, number: int) -> None:
    records.write_once(runs.attempts_of(layout, "r") / f"{number}.started.json", {"started_at": runs.now()})


def attempts(layout: Layout) -> list[tuple[str | None, str | None]]:
    """The job of each, and what ended it."""
    found = runs.read_attempts(layout, "r")
    return [(attempt["job"], attempt["end"] and attempt["end"]["cause"]) for attempt in found]


def test_a_job_that_has_not_begun_begins_its_own_attempt(layout: Layout) -> None:
    ask(layout)
    assert attempt_to_begin(layout, plan(layout), 1) == 1
    assert attempts(layout) == [("r-a1", None)]


def test_one_that_has_begun_goes_on_as_the_next_attempt_from_the_newest_complete_step(layout: Layout) -> None:
    ask(layout)
    begin(layout, 1)
    step(layout, 10)
    torn = tear(step(layout, 20))
    assert attempt_to_begin(layout, plan(layout), 1) == 2
    assert attempts(layout) == [("r-a1", "evicted"), ("r-a1", None)]
    second = runs.read_attempts(layout, "r")[1]
    assert (second["resume"]["kind"], second["resume"]["step"]) == ("own", 10)
    assert [moved["path"] for moved in second["set_aside"]] == ["checkpoints/step_20"] and not torn.exists()


def test_it_goes_on_as_often_as_it_is_taken_back_and_as_the_same_attempt_until_that_begins(layout: Layout) -> None:
    ask(layout)
    for number in (1, 2, 3):
        begin(layout, number)
        assert {attempt_to_begin(layout, plan(layout), 1) for _ in range(2)} == {number + 1}
    assert attempts(layout) == [*[("r-a1", "evicted")] * 3, ("r-a1", None)]


def test_what_a_person_vouched_for_stays_vouched_for(layout: Layout) -> None:
    doubt(step(layout, 10))
    ask(layout, 1, "checkpoints/step_10")
    begin(layout, 1)
    assert attempt_to_begin(layout, plan(layout), 1) == 2
    assert runs.read_attempts(layout, "r")[1]["resume"]["step"] == 10


def test_what_can_not_go_on_leaves_its_attempt_open_for_the_reason(layout: Layout) -> None:
    ask(layout)
    begin(layout, 1)
    doubt(step(layout, 10))
    with pytest.raises(ChangedError, match="--trust checkpoints/step_10"):
        attempt_to_begin(layout, plan(layout), 1)
    assert attempts(layout) == [("r-a1", None)]


def test_a_run_that_saved_its_last_step_before_it_was_taken_back_is_complete(layout: Layout) -> None:
    ask(layout)
    begin(layout, 1)
    step(layout, 100)
    with pytest.raises(StartedBeforeError, match="no step left"):
        attempt_to_begin(layout, plan(layout), 1)
    assert attempts(layout) == [("r-a1", "evicted"), (None, "completed")]


@pytest.mark.parametrize("cause", ["stopped", "evicted"])
def test_a_run_that_was_stopped_or_goes_on_in_another_job_is_not_begun(layout: Layout, cause: str) -> None:
    ask(layout)
    begin(layout, 1)
    runs.end(layout, {"run": "r", "attempt": 1, "end": {"state": "stopped", "cause": cause, "reason": "by hand"}})
    if cause == "stopped":
        assert attempt_to_begin(layout, plan(layout), 1) == 1  # which refuses to begin: it has ended
    else:
        ask(layout, 2)
        with pytest.raises(StartedBeforeError, match="goes on with the job r-a2"):
            attempt_to_begin(layout, plan(layout), 1)


def test_without_a_queue_or_on_several_nodes_it_begins_once(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(layout)
    begin(layout, 1)
    assert attempt_to_begin(layout, plan(layout, nodes=2), 1) == 1
    monkeypatch.delenv(QUEUE)
    assert attempt_to_begin(layout, plan(layout), 1) == 1
    assert attempts(layout) == [("r-a1", None)]


def test_whoever_follows_the_first_attempt_is_told_of_the_one_that_its_job_goes_on_as(layout: Layout) -> None:
    def seen(number: int) -> dict[str, Any]:
        asked = {"metrics": "m.jsonl", "offset": 0, "format": None, "checkpoints": "checkpoints", "attempt": number}
        begun: dict[str, Any] = observe(layout, {"runs": {"r": asked}})["runs"]["r"]["begun"]
        return begun

    ask(layout)
    begin(layout, 1)
    assert "attempt" not in seen(1)
    attempt_to_begin(layout, plan(layout), 1)
    assert (seen(1)["attempt"], seen(1)["job"], seen(1)["end"]) == (2, "r-a1", None)
    runs.end(layout, {"run": "r", "attempt": 2, "end": {"state": "failed", "cause": "exit", "reason": "exit code 1"}})
    prepare(layout, {"run": "r", "attempt": 3, "job": "r-a3"})
    for number in (1, 2):
        assert (seen(number)["attempt"], seen(number)["end"]["cause"]) == (2, "exit")
