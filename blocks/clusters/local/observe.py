"""What became of local jobs, read from their files. Starts nothing and changes nothing."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from blocks.clusters.job import Cause, JobState, JobStatus
from blocks.clusters.local.files import DamagedError, is_locked, read_json
from blocks.clusters.local.identity import Identity
from blocks.clusters.local.log import last_lines
from blocks.clusters.local.place import Place


def observe(place: Place) -> JobStatus | None:
    """The job as it is now, or None if there is none."""
    submitted = place.read()
    return None if submitted is None else _observe(place, submitted)


def observe_all(root: Path, owner: str, labels: Mapping[str, str]) -> list[JobStatus]:
    """The owner's jobs that carry these labels, oldest first."""
    found = []
    for place in _places(root, owner):
        submitted = place.read()
        if submitted is None:
            continue
        if not isinstance(its := submitted.get("labels"), dict):
            raise DamagedError(place.directory / "job.json", "it has no labels")
        if labels.items() <= its.items():
            found.append(_observe(place, submitted))
    return sorted(found, key=lambda status: (status.submitted_at, status.name))


def observe_live(root: Path, owner: str) -> list[JobStatus]:
    """The owner's live jobs; ended ones are not even read."""
    found = (observe(place) for place in _places(root, owner) if not place.end.exists())
    return [status for status in found if status is not None and status.live]


def _places(root: Path, owner: str) -> Iterator[Place]:
    directory = root / "jobs" / owner
    if directory.is_dir():
        yield from (Place(root, owner, path.name) for path in directory.iterdir() if path.name[0] != ".")


def _observe(place: Place, submitted: dict[str, Any]) -> JobStatus:
    current = read_json(place.end) or _unfinished(place)
    try:
        return _status(place, submitted, current)
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # JSON, and not ours
        raise DamagedError(
            place.directory / "job.json", "it, state.json or end.json has other keys or values"
        ) from error


def _status(place: Place, submitted: dict[str, Any], current: dict[str, Any]) -> JobStatus:
    return JobStatus(
        name=place.name,
        uid=submitted["uid"],
        request_hash=submitted["request_hash"],
        state=current["state"],
        reason=current.get("reason", ""),
        cause=current.get("cause"),
        exit_code=current.get("exit_code"),
        submitted_at=_time(submitted["submitted_at"]),
        started_at=_time(current["started_at"]) if current.get("started_at") else None,
        ended_at=_time(current["ended_at"]) if current.get("ended_at") else None,
        labels=submitted["labels"],
        mounts=submitted["mounts"],
        last_lines=tuple(current.get("last_lines", ())),
        unstarted=current.get("unstarted", False),
    )


def _unfinished(place: Place) -> dict[str, Any]:
    # The order of looks matters: a supervisor that had begun before a look at the lock, and does not hold it, is gone;
    # only then is the state its last, and only then does a missing end record mean that nobody will write one.
    while True:
        before = read_json(place.state)
        if is_locked(place.lock):
            return before or {"state": JobState.QUEUED, "reason": "starts"}
        state = read_json(place.state)
        if before is not None or state is None:
            break
    if state is None:
        reason = "was not started by whoever submitted it: submit it again, or stop it"
        return {"state": JobState.QUEUED, "reason": reason, "unstarted": True}
    program = Identity(*state["program"]) if "program" in state else None
    if program is not None and program.lives:
        reason = f"its supervisor is gone, but process {program.pid} still runs: how it ends will not be known"
        return {**state, "reason": reason}
    return read_json(place.end) or {
        **state,
        "state": JobState.LOST,
        "cause": Cause.LOST,
        "reason": "Its process is gone and nobody saw how it ended (a reboot, or its supervisor was killed).",
        "last_lines": last_lines(place.log),
    }


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
