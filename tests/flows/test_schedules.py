"""Schedules on a real server: times that came due while no worker was there, that overlap, that come twice."""

import urllib.parse
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flows.slots import slot_name
from tasks.sweeps.records import read_sweep
from tasks.sweeps.stop import end_sweep
from tests.conftest import Running
from tests.flows.test_crashes import until

VOLUME = "scheduled"
SEARCH = {
    "method": "random",
    "axes": {"optim.lr": {"log_range": [0.001, 0.05]}},
    "metric": "val_loss",
    "limits": {"trials": 1, "parallel": 1},
}
SLOW = {"max_steps": 2000, "ckpt.interval": 1000, "pace.step_seconds": 0.3}


class Calendar:
    """The scheduled times of a deployment."""

    def __init__(self, running: Running, deployment: str) -> None:
        found = running.api("GET", f"/deployments/name/{urllib.parse.quote(deployment)}")
        assert isinstance(found, dict)
        self._running, self._deployment = running, str(found["id"])
        self._schedules: list[str] = []

    def add(self, slug: str, newest: datetime, times: int, **parameters: object) -> None:
        """Times an hour apart up to the newest, all of them due: as if no worker had been there."""
        hour = timedelta(hours=1)
        schedule = {"interval": hour.total_seconds(), "anchor_date": newest.isoformat(), "timezone": "UTC"}
        body = {"schedule": schedule, "active": True, "slug": slug, "parameters": parameters}
        made = self._running.api("POST", f"/deployments/{self._deployment}/schedules", [body])
        assert isinstance(made, list)
        self._schedules.append(made[0]["id"])
        past = {"start_time": (newest - hour * (times - 0.5)).isoformat(), "end_time": newest.isoformat()}
        self._running.api("POST", f"/deployments/{self._deployment}/schedule", {**past, "min_runs": times})

    def clear(self) -> None:
        for schedule in self._schedules:
            self._running.api("DELETE", f"/deployments/{self._deployment}/schedules/{schedule}")

    def flow_runs(self) -> list[dict[str, Any]]:
        """What schedules made for times that have come, in their order."""
        asked = {"deployments": {"id": {"any_": [self._deployment]}}, "sort": "EXPECTED_START_TIME_ASC"}
        found = self._running.api("POST", "/flow_runs/filter", asked)
        assert isinstance(found, list)
        ours = [run for run in found if run["auto_scheduled"] and run["parameters"].get("volume") == VOLUME]
        return [run for run in ours if datetime.fromisoformat(run["expected_start_time"]) <= datetime.now(UTC)]

    def shown(self) -> list[str]:
        return [run["state"]["name"] for run in self.flow_runs()]


@pytest.fixture
def calendar(running: Running) -> Iterator[Calendar]:
    found = Calendar(running, "sweep/local")
    yield found
    found.clear()


@pytest.mark.long
def test_of_missed_times_the_newest_is_swept_once_and_one_that_overlaps_is_left_out(
    running: Running, calendar: Calendar
) -> None:
    given = {"name": "often", "volume": VOLUME, "search": SEARCH}
    newest = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=20)
    calendar.add("missed", newest, 4, **given, set=SLOW)
    swept = slot_name("often", newest, 36)
    until(lambda: calendar.shown() == ["Skipped"] * 3 + ["Running"], "the newest to run alone")
    for run in calendar.flow_runs()[:3]:
        assert run["state"]["message"].startswith("Left out: a newer scheduled time is due already"), run["state"]

    def live() -> bool:
        sweeps = running.cluster.call(VOLUME, "sweeps.list", {})["sweeps"] if volume_is_there(running) else []
        return bool(sweeps) and bool(read_sweep(running.cluster, VOLUME, swept)[1].live)

    until(live, "its trial to train")

    calendar.add("overlapping", datetime.now(UTC), 1, **given, set=SLOW)
    until(lambda: calendar.shown()[4:] == ["Skipped"], "a time that comes meanwhile to be left out")
    message = calendar.flow_runs()[4]["state"]["message"]
    assert message == f"Left out: the one of {newest:%Y-%m-%d %H:%M} UTC still runs."

    assert end_sweep(running.cluster, VOLUME, swept, "the test is over")
    again = calendar.flow_runs()[3]["id"]
    running.wait(again, "FAILED")  # no trial of it has completed
    jobs = len(running.cluster.jobs.find({}))
    # the same time a second time: a retry, or a person who starts it again
    running.api("POST", f"/flow_runs/{again}/set_state", {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}})
    running.logged(again, "asked for before")
    running.wait(again, "FAILED")
    assert len(running.cluster.jobs.find({})) == jobs, "it has launched nothing"
    named = [sweep["sweep"] for sweep in running.cluster.call(VOLUME, "sweeps.list", {})["sweeps"]]
    assert named == [swept], "five times, one of them twice: one sweep"


def volume_is_there(running: Running) -> bool:
    return any(volume.name == VOLUME for volume in running.cluster.volumes.list())
