"""What reconcile finds on a volume, and what it leaves alone."""

import json
import time
from datetime import UTC, datetime, timedelta

from blocks.clusters.job import JobState
from tasks.pod.layout import Layout
from tasks.runs.job import job_name
from tasks.runs.launch import read_run, write_end
from tasks.runs.reconcile import orphaned_runs, take_up
from tasks.runs.records import End
from tests.tasks.conftest import Desk

NOW = timedelta(0)


def test_a_live_run_that_nobody_follows_is_adopted_and_one_that_is_over_gets_its_end(desk: Desk) -> None:
    slow = desk.launch(desk.request("slow", max_steps=4000, pace__step_seconds=0.1))
    quick = desk.launch(desk.request("quick", max_steps=1))
    while desk.cluster.jobs.status([quick.job])[quick.job].live:
        time.sleep(0.05)
    found = orphaned_runs(desk.cluster, desk.volume, NOW, set())
    assert sorted(record.run for record in found) == ["quick", "slow"]
    assert orphaned_runs(desk.cluster, desk.volume, timedelta(hours=1), set()) == []
    assert [r.run for r in orphaned_runs(desk.cluster, desk.volume, NOW, {"slow"})] == ["quick"]

    taken = {launched.plan.run: launched for launched in take_up(desk.cluster, found)}

    assert taken["slow"].adopted and taken["slow"].attempt.end is None
    end = read_run(desk.cluster, desk.volume, "quick").attempts[0].end
    assert end is not None and end.state == "completed"
    desk.cluster.jobs.stop(slow.job)


def test_a_run_that_is_followed_is_left_alone(desk: Desk) -> None:
    launched = desk.launch(desk.request("a", max_steps=4000, pace__step_seconds=0.1))
    desk.cluster.call(desk.volume, "runs.followed", {"runs": ["a"]}, writable=True)
    assert orphaned_runs(desk.cluster, desk.volume, timedelta(hours=1), set()) == []
    desk.cluster.jobs.stop(launched.job)


def test_a_clock_that_was_set_back_does_not_hide_a_run_that_nobody_follows(desk: Desk) -> None:
    launched = desk.launch(desk.request("a", max_steps=4000, pace__step_seconds=0.1))
    followed = Layout(desk.cluster.volumes.path(desk.volume)).records("a") / "followed.json"
    followed.write_text(json.dumps({"at": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}))
    assert orphaned_runs(desk.cluster, desk.volume, timedelta(hours=2), set()) == []
    assert [r.run for r in orphaned_runs(desk.cluster, desk.volume, timedelta(minutes=30), set())] == ["a"]
    desk.cluster.jobs.stop(launched.job)


def test_an_attempt_that_was_prepared_and_never_submitted_is_submitted(desk: Desk) -> None:
    record = desk.record(desk.request("a", max_steps=1))
    assert orphaned_runs(desk.cluster, desk.volume, NOW, set()) == [], "only planned: its flow may have been cancelled"
    arguments = {"run": "a", "attempt": 1, "job": job_name(record, 1), "trust": []}
    desk.cluster.call(desk.volume, "runs.prepare", arguments, writable=True)
    (launched,) = take_up(desk.cluster, orphaned_runs(desk.cluster, desk.volume, NOW, set()))
    assert launched.plan == record and desk.cluster.jobs.find({})[-1].state is not JobState.LOST


def test_a_lost_run_is_begun_again_and_a_failed_one_is_not(desk: Desk) -> None:
    for name, end in (
        ("lost", End(state="lost", cause="lost", reason="its node is gone")),
        ("failed", End(state="failed", cause="exit", reason="exit code 1", exit_code=1)),
    ):
        launched = desk.launch(desk.request(name, max_steps=1))
        write_end(desk.cluster, launched.plan, 1, end)
    (launched,) = take_up(desk.cluster, orphaned_runs(desk.cluster, desk.volume, NOW, set()))
    assert (launched.plan.run, launched.attempt.attempt) == ("lost", 2)
