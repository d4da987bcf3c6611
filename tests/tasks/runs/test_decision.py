"""Asked again, a run is adopted, continued or left: decided from records and the cluster's word alone."""

from datetime import UTC, datetime
from typing import Any

import pytest

from blocks.clusters.job import Cause, JobState, JobStatus
from blocks.trainer_settings import TrainerSettings
from tasks.runs.decision import decide
from tasks.runs.records import Attempt, End, PlanRecord, Resolved, Resume, RunRecord, TrainerFacts, Weights
from tasks.runs.request import RunRequest

NOW = datetime(2026, 11, 30, tzinfo=UTC)
PLAN = PlanRecord(
    run="r",
    volume="v",
    request=RunRequest(run="r", volume="v", trainer=TrainerSettings(kind="tiny"), config={}),
    request_hash="h",
    config={},
    trainer=TrainerFacts(
        kind="tiny", image=None, checkpoint_format="tiny", checkpoints="checkpoints", metrics="metrics.jsonl"
    ),
    resolved=Resolved(weights=Weights(path="models/m")),
    max_steps=10,
    created_at=NOW,
    version="0",
)


def record(*ends: str | None, started: bool = True) -> RunRecord:
    """A run whose attempts ended for these causes; None for one that has no recorded end."""
    attempts = [
        Attempt(
            run="r",
            attempt=n,
            job=f"r-a{n}",
            resume=Resume(kind="base", path=None, step=0, fingerprint=None),
            created_at=NOW,
            started=started,
            end=End(state=_state(cause), cause=cause, reason="") if cause else None,
        )
        for n, cause in enumerate(ends, 1)
    ]
    return RunRecord(run="r", plan=PLAN, attempts=tuple(attempts))


def _state(cause: str) -> Any:
    return {"completed": "completed", "lost": "lost", "stopped": "stopped"}.get(cause, "failed")


def job(state: JobState, cause: Cause | None = None) -> JobStatus:
    return JobStatus(name="r-a1", uid="u", request_hash="h", state=state, cause=cause, submitted_at=NOW)


def do(runs: RunRecord, status: JobStatus | None = None, *, complete: bool = False, automatic: bool = False) -> Any:
    decision = decide(runs, status, complete_at_end=complete, automatic=automatic)
    return decision.do, decision.attempt


def test_a_new_run_starts_its_first_attempt() -> None:
    assert do(record()) == ("start", 1)


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.STARTING, JobState.RUNNING])
def test_a_live_job_is_adopted(state: JobState) -> None:
    assert do(record(None), job(state)) == ("adopt", 1)


def test_a_job_that_nobody_came_to_start_is_submitted_again() -> None:
    left = job(JobState.QUEUED).model_copy(update={"unstarted": True})
    assert do(record(None, started=False), left) == ("submit", 1)


def test_an_attempt_that_was_prepared_and_never_submitted_is_submitted() -> None:
    assert do(record(None, started=False)) == ("submit", 1)


def test_an_ended_job_is_written_down_first() -> None:
    decision = decide(record(None), job(JobState.FAILED, Cause.SIGNAL), complete_at_end=False, automatic=False)
    assert decision.do == "end" and decision.end is not None and decision.end.cause == "signal"


@pytest.mark.parametrize(("complete", "state"), [(True, "completed"), (False, "lost")])
def test_a_job_that_is_gone_is_decided_by_its_outputs(complete: bool, state: str) -> None:
    decision = decide(record(None), None, complete_at_end=complete, automatic=False)
    assert decision.do == "end" and decision.end is not None and decision.end.state == state


@pytest.mark.parametrize("cause", ["exit", "signal", "out of memory", "stopped", "lost", "evicted", "deadline"])
def test_a_person_who_asks_again_gets_the_next_attempt(cause: str) -> None:
    assert do(record("exit", cause)) == ("start", 3)


@pytest.mark.parametrize(
    ("cause", "decided"),
    [("exit", "leave"), ("signal", "leave"), ("stopped", "leave"), ("lost", "start"), ("evicted", "start")],
)
def test_a_retry_by_prefect_starts_again_only_for_infrastructure(cause: str, decided: str) -> None:
    assert do(record(cause), automatic=True)[0] == decided


@pytest.mark.parametrize("automatic", [True, False])
def test_a_completed_run_is_left_as_it_is(automatic: bool) -> None:
    assert do(record("exit", "completed"), automatic=automatic) == ("leave", 2)


def test_an_attempt_as_which_a_job_went_on_that_is_gone_is_lost_and_not_submitted_again() -> None:
    """Its queue had taken the job back; it was deleted as it began again."""
    runs = record("evicted", None, started=False)
    (first, second) = runs.attempts
    goes_on = runs.model_copy(update={"attempts": (first, second.model_copy(update={"job": first.job}))})
    assert do(goes_on) == ("end", 2) and do(runs) == ("submit", 2)
