"""Scheduled times that were missed or overlap: every flow run decides for itself, and together they decide right."""

import asyncio
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from prefect.server.schemas.schedules import CronSchedule

from flows.slots import Slot, slot_name, why_skip

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def after_an_outage(late: str) -> list[str]:
    """Four times came due; the worker is back at half past twelve and starts all of them at once."""
    now = NOON + HOUR / 2
    slots = [Slot(NOON - n * HOUR, began=now, live=True) for n in range(4)]
    return [why_skip(mine, [s for s in slots if s is not mine], now, late, "skip") for mine in slots]  # type: ignore[arg-type]


def test_of_missed_times_only_the_newest_runs() -> None:
    newest, *older = after_an_outage("latest")
    assert newest == ""
    assert all("a newer scheduled time is due already (2026-11-30 12:00 UTC)" in why for why in older)


def test_missed_times_are_all_left_out_where_that_is_asked_for() -> None:
    assert after_an_outage("skip")[0] == "it starts 30 minutes late"
    assert all(after_an_outage("skip"))


def test_missed_times_all_run_where_that_is_asked_for() -> None:
    assert after_an_outage("run") == [""] * 4


def test_a_time_is_left_out_while_an_earlier_one_runs() -> None:
    before = Slot(NOON - HOUR, began=NOON - HOUR, live=True)
    assert why_skip(Slot(NOON), [before], NOON, "latest", "skip") == "the one of 2026-11-30 11:00 UTC still runs"
    assert why_skip(Slot(NOON), [before], NOON, "latest", "run") == ""
    assert why_skip(Slot(NOON), [Slot(before.due, before.began, live=False)], NOON, "latest", "skip") == ""


def test_a_time_that_is_yet_to_come_stops_nobody() -> None:
    assert why_skip(Slot(NOON), [Slot(NOON + HOUR)], NOON, "latest", "skip") == ""


def test_one_scheduled_time_is_one_name() -> None:
    assert slot_name("nightly", NOON, 36) == "nightly-20261130-1200"
    assert slot_name("nightly", NOON + timedelta(seconds=15), 36) == "nightly-20261130-120015"
    assert slot_name("nightly", None, 36) == "nightly"
    assert len(slot_name("a" * 36, NOON, 36)) == 36 and slot_name("a" * 36, NOON, 36) != slot_name(
        "a" * 36, NOON + HOUR, 36
    )


def test_one_at_night_stays_one_at_night_over_the_change_of_the_clocks() -> None:
    schedule = CronSchedule(cron="0 1 * * *", timezone="Europe/Berlin")
    start = datetime(2026, 10, 24, tzinfo=ZoneInfo("Europe/Berlin"))
    times = asyncio.run(schedule.get_dates(4, start))
    assert [f"{time.astimezone(ZoneInfo('Europe/Berlin')):%d %H:%M}" for time in times] == [
        "24 01:00",
        "25 01:00",
        "26 01:00",
        "27 01:00",
    ]
    names = [slot_name("nightly", time.astimezone(UTC), 36) for time in times]
    assert names == ["nightly-20261023-2300", "nightly-20261024-2300", "nightly-20261026-0000", "nightly-20261027-0000"]
