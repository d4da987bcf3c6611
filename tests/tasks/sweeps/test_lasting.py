"""Limits of sweeps are measured: the time of day may be set."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tasks.sweeps.drive import Drive
from tasks.sweeps.lasting import Lasting, measured
from tests.tasks.sweeps.conftest import SweepDesk, search

DAY = timedelta(days=1)


def test_the_time_of_day_is_asked_once_and_never_counts_backwards() -> None:
    now, lasting = datetime.now(UTC), Lasting()
    first = lasting.seconds("a", now - timedelta(seconds=100), before=50)
    assert 150 <= first < 3600
    assert first <= lasting.seconds("a", now - DAY) < 3600
    assert lasting.seconds("b", now + DAY) < 3600
    lasting.forget({"b"})
    assert lasting.seconds("a", now - DAY) >= DAY.total_seconds()


def test_a_sweep_goes_on_from_what_was_measured(sweeps: SweepDesk, tmp_path: Path) -> None:
    """As if the clock had been set forward by a day while another process drove it."""
    how = search(limits={"trials": 1, "hours": 2})
    record = sweeps.record(sweeps.request("s", how))
    home = tmp_path / "cluster" / "volumes" / "me" / "v" / ".slipway" / "sweeps" / "s"
    sign = {"driver": "x", "at": datetime.now(UTC).isoformat(), "seconds": 3600}
    (home / "driver.json").write_text(json.dumps(sign))
    record = record.model_copy(update={"created_at": record.created_at - DAY})

    drive = Drive(sweeps.desk.cluster, record, lambda drive: None)
    state = drive.to_its_end()

    assert state.over is not None and state.over.reason == "all trials are over"
    assert 3600 <= json.loads((home / "driver.json").read_text())["seconds"] <= drive.seconds < 7200


def test_one_that_nobody_has_measured_began_when_it_was_planned(sweeps: SweepDesk) -> None:
    assert measured({"at": "2026-01-01T00:00:00+00:00"}, datetime(2025, 1, 1, tzinfo=UTC))[0].year == 2025
    record = sweeps.record(sweeps.request("s", search(limits={"trials": 1, "hours": 2})))
    record = record.model_copy(update={"created_at": record.created_at - DAY})

    state = Drive(sweeps.desk.cluster, record, lambda drive: None).to_its_end()

    assert state.over is not None and "2 hours have passed" in state.over.reason and not state.nodes
