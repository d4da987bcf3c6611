"""Follows runs to their end: one look a tick for all of a volume's, whatever happens to logs and watches."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from blocks.clusters.errors import SlipwayError
from blocks.clusters.job import JobState, JobStatus
from blocks.clusters.port import Cluster
from tasks.pod.checkpoints.elsewhere import is_elsewhere
from tasks.pod.metrics import NOT_FINITE, by_step
from tasks.runs.decision import gone
from tasks.runs.held import HELD
from tasks.runs.job import job_of
from tasks.runs.launch import Launch, launch, stop, write_end
from tasks.runs.patience import call_patiently
from tasks.runs.records import End, PlanRecord
from tasks.runs.room import Room, Saved

SIGN_OF_LIFE_SECONDS = 60.0
"""How often a follower says that it follows."""

_HELD_TURNS = 15
"""At how many looks once, whether there is room again: that counts the bytes on the volume."""


@dataclass
class Progress:
    """What is known of a run while it is followed.

    Args:
        curve: metrics by step; a step that was trained again counts once.
        checkpoints: as `tasks.pod.checkpoints` reports them, oldest step first.
        not_finite: how many of a metric's newest values in a row are NaN or infinite, where any is.
        fresh: paths of those that were not complete at the last look and are now.
        end: once the attempt is over.
        warnings: of the room on the volume, and of checkpoints that are not on it, since the last look.
        turns: how often its job went on as the next attempt, because its queue took it back and started it again.
        held: its attempt was stopped for want of room, and another begins once there is some; `end` is the attempt's.
    """

    launch: Launch
    job: JobStatus | None = None
    curve: dict[int, dict[str, Any]] = field(default_factory=dict)
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    not_finite: dict[str, int] = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)
    end: End | None = None
    warnings: list[str] = field(default_factory=list)
    turns: int = 0
    _offset: int = 0
    _complete: set[tuple[str, str]] = field(default_factory=set)
    _elsewhere: set[str] = field(default_factory=set)

    @property
    def held(self) -> bool:
        return self.end is not None and self.end.cause == HELD

    @property
    def step(self) -> int:
        return max(self.curve, default=self.launch.attempt.resume.step)

    def saved(self) -> Saved:
        """What its next checkpoint is likely to take."""
        complete = [c["bytes"] for c in self.checkpoints if c["verdict"] == "complete"]
        most = self.launch.plan.max_steps
        return Saved(
            self.launch.plan, complete[-1] if complete else 0, None if most is None else max(0, most - self.step)
        )

    def take(self, seen: dict[str, Any]) -> None:
        self.curve = by_step(seen["metrics"], self.curve)
        for row in seen["metrics"]:
            for name in self.not_finite.keys() & row.keys():
                if row[name] is not None:
                    del self.not_finite[name]
            for name in row.get(NOT_FINITE, ()):
                self.not_finite[name] = self.not_finite.get(name, 0) + 1
        self._offset = seen["offset"]
        self.checkpoints = seen["checkpoints"]
        if begun := seen.get("begun"):
            before, self.launch = self.launch.attempt.attempt, self.launch.begun(begun)
            attempt = self.launch.attempt
            if attempt.attempt != before:
                self.turns += attempt.attempt - before
                goes_on = f"goes on as attempt {attempt.attempt}, from step {attempt.resume.step}"
                self.warnings.append(f"its queue took it back after it had begun, and gave it another turn: {goes_on}")
        complete = {(c["path"], c["fingerprint"]) for c in self.checkpoints if c["verdict"] == "complete"}
        self.fresh = sorted(path for path, _ in complete - self._complete)
        self._complete |= complete
        for c in self.checkpoints:
            if is_elsewhere(c["why"]) and c["path"] not in self._elsewhere:
                self._elsewhere.add(c["path"])
                self.warnings.append(f"{c['path']} is not on the volume: {c['why']}")


def follow(
    cluster: Cluster,
    launches: Sequence[Launch],
    notice: Callable[[Progress], None],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Progress]:
    """Follow runs of one volume until each is over, and write down how each attempt ended. One that is held goes on,
    with another attempt, as soon as there is room.

    Args:
        notice: called for every run after every look.
        sleep: waits between looks, in seconds.

    Returns:
        The last of each, in the order given.
    """
    runs = [Progress(launched, end=launched.attempt.end) for launched in launches]
    by_run = {progress.launch.plan.run: progress for progress in runs}

    def hold(plan: PlanRecord, why: str) -> None:
        by_run[plan.run].end = stop(cluster, plan.volume, plan.run, reason=why, cause=HELD)

    volume = launches[0].plan.volume
    room = Room(cluster, volume, lambda plan, text: by_run[plan.run].warnings.append(text), hold)
    said_at, turns = -SIGN_OF_LIFE_SECONDS, 0
    while True:
        for progress in runs:
            progress.warnings.clear()
            if progress.held and turns % _HELD_TURNS == 0:
                _go_on(cluster, progress)
        turns += 1
        live = [p for p in runs if p.end is None]
        open_ = [p for p in runs if p.end is None or p.held]
        if open_ and time.monotonic() - said_at >= SIGN_OF_LIFE_SECONDS:
            said_at = time.monotonic()
            followed = {"runs": [p.launch.plan.run for p in open_]}
            with suppress(SlipwayError):  # a hint for reconcile, and nobody's condition
                cluster.call(volume, "runs.followed", followed, writable=True)
        look(cluster, live or runs)
        for progress in live:
            if progress.end is not None:
                attempt = progress.launch.attempt.attempt
                progress.end = write_end(cluster, progress.launch.plan, attempt, progress.end)
        if any(progress.fresh for progress in live):
            with suppress(SlipwayError):  # whoever can not be asked now is asked after the next save
                room.look([progress.saved() for progress in live if progress.end is None])
        for progress in live or runs:
            notice(progress)
        if all(p.end is not None and not p.held for p in runs):
            return runs
        sleep(cluster.poll_seconds)


def _go_on(cluster: Cluster, progress: Progress) -> None:
    """Launch the next attempt of a run that is held, if there is room by now, or find that it was stopped meanwhile."""
    with suppress(SlipwayError):  # asked again in a while
        launched = launch(cluster, progress.launch.plan, automatic=True)
        if launched.attempt.attempt != progress.launch.attempt.attempt:
            progress.launch, progress.end = launched, launched.attempt.end
        if progress.end is None:
            progress.warnings.append(f"there is room again: goes on as attempt {launched.attempt.attempt}")


def look(cluster: Cluster, runs: Sequence[Progress]) -> None:
    """Look once at runs of one volume, whatever they are about. How one ended is left to be written down; a job that
    nobody came to start is submitted again.

    Args:
        runs: live ones, and those that are over, of which only their files are looked at.
    """
    live = [p for p in runs if p.end is None]
    statuses = cluster.jobs.status([p.launch.job for p in live]) if live else {}
    _read(cluster, runs)  # after the statuses: what an ended job wrote is seen
    for progress in live:
        job = statuses.get(progress.launch.job)
        if job is not None and job.unstarted:
            job = cluster.jobs.submit(job_of(progress.launch.plan, progress.launch.attempt))
        progress.job = job
        progress.end = _end(progress)


def _read(cluster: Cluster, runs: Sequence[Progress]) -> None:
    asked = {
        p.launch.plan.run: {
            "offset": p._offset,
            "metrics": p.launch.plan.trainer.metrics,
            "format": p.launch.plan.trainer.checkpoint_format,
            "checkpoints": p.launch.plan.trainer.checkpoints,
            "attempt": p.launch.attempt.attempt or None,
        }
        for p in runs
    }
    seen = call_patiently(cluster, runs[0].launch.plan.volume, "runs.observe", {"runs": asked})["runs"]
    for progress in runs:
        progress.take(seen[progress.launch.plan.run])


def _end(progress: Progress) -> End | None:
    plan, job = progress.launch.plan, progress.job
    if progress.launch.attempt.end is not None:  # of a later attempt, which found nothing left to train
        return progress.launch.attempt.end
    if job is not None and job.live:
        return None
    if job is not None and job.state is not JobState.LOST:
        return End.of(job)
    last = {c["step"] for c in progress.checkpoints if c["verdict"] == "complete"}
    return gone(plan.max_steps is not None and plan.max_steps in last)
