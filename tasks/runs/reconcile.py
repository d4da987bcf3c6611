"""Finds what nobody looks after any more: runs whose attempt is open and not followed, sweeps that nobody drives."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from blocks.clusters.port import Cluster
from tasks.runs.held import is_held
from tasks.runs.launch import Launch, launch, read_runs
from tasks.runs.records import RunRecord
from tasks.sweeps.records import SweepRecord, driven_at, read_shown

MOST_ATTEMPTS = 3
"""Of which each has a job of its own."""
_LOST_LATELY = timedelta(days=1)


def orphaned_sweeps(cluster: Cluster, volume: str, idle: timedelta) -> tuple[list[SweepRecord], set[str]]:
    """The sweeps that are not over and that nobody drives, and the runs of all sweeps.

    Args:
        idle: how long nobody has driven them.
    """
    orphans: list[SweepRecord] = []
    theirs: set[str] = set()
    for shown in cluster.call(volume, "sweeps.list", {})["sweeps"]:
        record, state = read_shown(shown)
        theirs |= state.nodes.keys()
        if state.over is None and _idle(driven_at(shown) or record.created_at, idle):
            orphans.append(record)
    return orphans, theirs


def orphaned_runs(cluster: Cluster, volume: str, idle: timedelta, looked_after: set[str]) -> list[RunRecord]:
    """The runs whose attempt has no end on record and that nobody follows, and those that were lost or evicted lately
    and not begun again.

    One that was planned and never attempted is left alone: its flow may have been cancelled before it came to that.

    Args:
        idle: how long nobody has followed them.
        looked_after: runs that are no concern of this: a sweep's.
    """
    return [
        record
        for record in read_runs(cluster, volume)[0]
        if record.run not in looked_after and record.last and _is_orphan(record, idle)
    ]


def take_up(cluster: Cluster, orphans: Sequence[RunRecord]) -> list[Launch]:
    """Bring each to a live job or to its end: adopt it, submit what was prepared, write its end down, begin a lost one
    again."""
    return [launch(cluster, record.plan, automatic=True) for record in orphans]


def _is_orphan(record: RunRecord, idle: timedelta) -> bool:
    last = record.last
    assert last is not None
    if last.end is None:
        return _idle(max(filter(None, (record.followed_at, last.created_at))), idle)
    if is_held(last):
        return _idle(max(filter(None, (record.followed_at, last.created_at))), idle)
    lately = last.end.ended_at is None or datetime.now(UTC) - last.end.ended_at < _LOST_LATELY
    jobs = {attempt.job for attempt in record.attempts}  # one that its queue took back goes on as the next attempt
    return last.end.infrastructure and lately and len(jobs) < MOST_ATTEMPTS


def _idle(since: datetime, idle: timedelta) -> bool:
    # A note from the future is of a clock that was set back since: to wait for that time again could be long, and what
    # is taken up although somebody looks after it is adopted, no more.
    return abs(datetime.now(UTC) - since) >= idle
