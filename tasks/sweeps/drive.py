"""Drives a sweep to its end: one look a tick for all trials that run, one turn of the log for all that follows from it.

Everything that is decided is on record before it is done. Killed at any moment and begun again, it reads the log, finds
the runs as they are, and goes on.
"""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from blocks.clusters.errors import NotFoundError, SlipwayError
from blocks.clusters.port import Cluster
from tasks.pod.errors import PodError
from tasks.runs.follow import Progress, look
from tasks.runs.job import job_name, job_of
from tasks.runs.launch import Launch, launch, write_end
from tasks.runs.patience import call_patiently
from tasks.runs.records import Attempt, PlanRecord, RunRecord
from tasks.runs.records import End as RunEnd
from tasks.runs.room import Room
from tasks.sweeps.lasting import Lasting, measured
from tasks.sweeps.log import Closing, End, Entry, Node, Origin, Start, State, read_entry
from tasks.sweeps.outcome import newest_of, outcome, value_of, values_at
from tasks.sweeps.proposals import Proposals, proposals
from tasks.sweeps.records import SweepRecord, config_of, plan_of, problems_of
from tasks.sweeps.rules import moves
from tasks.sweeps.stopping import said

_MOST_ATTEMPTS = 3
_STOPS_AT_ONCE = 8
_SIGN_OF_LIFE_SECONDS = 30.0
_GLANCES = 8
_HOUR = 3600
_SWEEP = ""  # no job is called so

Notice = Callable[["Drive"], None]


class Drive:
    """A sweep that is being driven.

    Args:
        notice: called after every look; finds what was seen in `seen`, and what was decided in `written`.
        sleep: waits, in seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        record: SweepRecord,
        notice: Notice,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.record = record
        self.search = record.request.search
        self.state = State(self.search.sign, self.search.stop.min_delta)
        self.watched: dict[str, Progress] = {}
        self.written: list[Entry] = []
        self.seen: list[Progress] = []
        self.warnings: list[str] = []
        self._room = Room(cluster, record.volume, lambda plan, text: self.warnings.append(f"{plan.run}: {text}"))
        self._cluster = cluster
        self._notice = notice
        self._sleep = sleep
        self._me = secrets.token_hex(8)
        self._earlier: dict[str, tuple[Attempt, ...]] = {}
        self._proposals: Proposals = proposals(self.search)
        self._looked_at: set[str] = set()
        self._compared: dict[str, dict[int, float]] = {}
        self._alive_at = 0.0
        self._lasting = Lasting()
        self._measured: tuple[datetime, float] = (record.created_at, 0.0)

    def to_its_end(self) -> State:
        """Raises: SlipwayError of a cluster that does not answer; the sweep can be gone on with."""
        self._reread()
        while self.state.over is None:
            self.one_turn()
            if self.state.over is None:
                self._wait()
        return self.state

    def one_turn(self) -> None:
        """Look once, and do what follows from it."""
        self._take_up()
        self._stop_unwanted()
        self._look()
        self._turn()
        self._notice(self)

    # what `rules` wants to know

    def step(self, run: str) -> int:
        return self.watched[run].step if run in self.watched else 0

    def score(self, run: str, step: int) -> float | None:
        return value_of(self.search, self.watched[run].curve, step) if run in self.watched else None

    def newest(self, run: str, below: int) -> Origin | None:
        return newest_of(self.watched[run], below) if run in self.watched else None

    def diverged(self) -> dict[str, str]:
        found = {}
        for run, progress in self.watched.items():
            if progress.not_finite and (what := said(self.search.metric, progress.not_finite, progress.step)):
                found[run] = what
        return found

    def compared(self) -> dict[str, dict[int, float]]:
        return self._compared

    # the log

    def _reread(self) -> None:
        shown = call_patiently(self._cluster, self.record.volume, "sweeps.show", {"sweep": self.record.sweep})
        self._measured = measured(shown["driver"], self.record.created_at)
        self.state = State(self.search.sign, self.search.stop.min_delta)
        self._proposals = proposals(self.search)
        for turn in shown["turns"]:
            self._apply(read_entry(entry) for entry in turn)
            self.state.turns += 1

    def _apply(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.state.apply(entry)
            self._proposals.told(entry)

    def _turn(self) -> None:
        """Write down what has ended and what follows from it, and launch what is to be launched."""
        entries, ends = self._ended()
        self._apply(entries)
        if (used_up := self._used_up()) is not None:
            entries.append(used_up)
            self._apply([used_up])
        plans: dict[str, PlanRecord] = {}
        while found := moves(self.record.sweep, self.search, self.state, self._proposals, self):
            for entry in list(found):
                if isinstance(entry, Start) and (refusal := self._plan(entry, plans)):
                    found.insert(found.index(entry) + 1, refusal)
            self._apply(found)
            entries += found
        self.written = entries
        if not entries and time.monotonic() - self._alive_at < _SIGN_OF_LIFE_SECONDS:
            return
        self._alive_at = time.monotonic()
        answer = self._advance(entries, ends, list(plans.values()))
        if not answer["taken"]:  # another flow drives the same sweep: what it decided counts
            self.written = []
            self._reread()
        else:
            self.state.turns += bool(entries)
            self._enter(answer["runs"])
        self._forget()

    def _advance(self, entries: list[Entry], ends: list[dict[str, Any]], plans: Iterable[PlanRecord]) -> dict[str, Any]:
        arguments = {
            "sweep": self.record.sweep,
            "turn": self.state.turns,
            "entries": [entry.model_dump(mode="json") for entry in entries],
            "ends": ends,
            "ready": [{"plan": plan.model_dump(mode="json"), "job": job_name(plan, 1)} for plan in plans],
            "driver": self._me,
            "seconds": self.seconds,
        }
        return call_patiently(self._cluster, self.record.volume, "sweeps.advance", arguments, writable=True)

    def _plan(self, start: Start, plans: dict[str, PlanRecord]) -> End | None:
        """Plan a run, or say why it can not be one."""
        try:
            problems = problems_of(self.record.request, config_of(self.record.request, start))
        except PodError as error:
            return End(run=start.run, state="failed", cause="config", reason=str(error))
        if problems:
            return End(run=start.run, state="failed", cause="config", reason=str(problems[0]))
        plans[start.run] = plan_of(self.record, start)
        return None

    # the runs

    def _take_up(self) -> None:
        """Find the runs that were begun and are not followed yet: after a kill, all that live."""
        nodes = [node for node in self.state.live if node.start.run not in self.watched]
        if self.search.method == "pbt" and self.state.turns:
            nodes += [n for n in self.state.newest() if n.end and n.start.run not in self.watched]
        if nodes:
            answer = self._advance([], [], [plan_of(self.record, node.start) for node in nodes])
            self._enter(answer["runs"])

    def _enter(self, runs: dict[str, dict[str, Any]]) -> None:
        """Launch runs, or adopt them as they are."""
        found = {run: RunRecord.read(f"run {run}", shown) for run, shown in runs.items() if "error" not in shown}
        names = [r.last.job for r in found.values() if r.last and r.last.job and r.last.end is None]
        jobs = self._cluster.jobs.status(names) if names else {}
        for run, shown in runs.items():
            if run not in found:
                self._refused(run, f"{shown['error']['what']} {shown['error']['remedy']}")
                continue
            record, node = found[run], self.state.nodes[run]
            if record.plan.request_hash != plan_of(self.record, node.start).request_hash:
                self._refused(run, f"There is a run {run!r} that was asked for otherwise: remove it.")
                continue
            if record.last is None and (node.end is not None or self._unwanted(node)):
                self._refused(run, "It was never launched.")
                continue
            job = jobs.get(record.last.job) if record.last and record.last.job else None
            self._watch(record, self._launch(record, node, job is not None and job.live and not job.unstarted))

    def _launch(self, record: RunRecord, node: Node, live: bool) -> Launch:
        last = record.last
        if last is not None and (live or node.end is not None or self._unwanted(node)):
            return Launch(record.plan, last, adopted=True)
        if last is not None and last.attempt == 1 and not last.started and last.end is None and last.job:
            self._cluster.jobs.submit(job_of(record.plan, last))
            return Launch(record.plan, last, adopted=False)
        launched = launch(self._cluster, record.plan, automatic=True)
        if launched.attempt.end is not None and launched.attempt.end.state == "stopped":
            return launch(self._cluster, record.plan)  # with its sweep, which goes on now
        return launched

    def _watch(self, record: RunRecord, launched: Launch) -> None:
        run = record.run
        self._looked_at.discard(run)
        self.watched[run] = Progress(launched, end=launched.attempt.end)
        self._earlier[run] = tuple(a for a in record.attempts if a.attempt < launched.attempt.attempt)

    def _refused(self, run: str, why: str) -> None:
        """A run that can not be launched: its end is written down with the next turn."""
        plan = plan_of(self.record, self.state.nodes[run].start)
        attempt = Attempt.model_validate(
            {
                "run": run,
                "attempt": 0,
                "job": None,
                "created_at": plan.created_at,
                "resume": {"kind": "base", "path": None, "step": 0, "fingerprint": None},
            }
        )
        end = RunEnd(state="failed", cause="prepare", reason=why)
        self.watched[run] = Progress(Launch(plan, attempt, adopted=True), end=end)

    def _stop_unwanted(self) -> None:
        """Stop the runs that a fork has replaced, or all, a few at a time: a trainer takes its time to end."""
        wanted = [self.watched[n.start.run] for n in self.state.to_stop if n.start.run in self.watched]
        jobs = [progress.launch.job for progress in wanted if progress.end is None]

        def stop(job: str) -> None:
            with contextlib.suppress(NotFoundError):
                self._cluster.jobs.stop(job)

        if jobs:
            with ThreadPoolExecutor(min(len(jobs), _STOPS_AT_ONCE)) as pool:
                list(pool.map(stop, jobs))

    def _look(self) -> None:
        """Look at what lives, and once at what was over when it was taken up."""
        followed = {r: p for r, p in self.watched.items() if p.end is None or r not in self._looked_at}
        self.seen = list(followed.values())
        self.warnings.clear()
        if followed:
            look(self._cluster, self.seen)
        if any(progress.fresh for progress in self.seen):
            with contextlib.suppress(SlipwayError):  # whoever can not be asked now is asked after the next save
                self._room.look([progress.saved() for progress in self.seen if progress.end is None])
            self._looked_at |= followed.keys()
        if self.search.stop.median_after:
            self._compared = {run: values_at(self.search, progress) for run, progress in followed.items()}

    def _ended(self) -> tuple[list[Entry], list[dict[str, Any]]]:
        """Entries for the runs that are over, and their ends for their own records."""
        entries: list[Entry] = []
        ends: list[dict[str, Any]] = []
        gpus = self.record.request.base.trainer.resources.gpus
        for node in self.state.live:
            run = node.start.run
            progress = self.watched.get(run)
            if progress is None or progress.end is None:
                continue
            unwanted = self._unwanted(node)
            jobs = progress.launch.attempt.attempt - progress.turns
            if progress.end.infrastructure and not unwanted and jobs < _MOST_ATTEMPTS:
                self._again(progress)
                continue
            if number := progress.launch.attempt.attempt:
                ends.append({"run": run, "attempt": number, "end": progress.end.model_dump(mode="json")})
            entries.append(outcome(self.search, progress, self._earlier.get(run, ()), gpus, node, closed=self._closed))
        return entries, ends

    def _again(self, progress: Progress) -> None:
        """The next attempt of a run whose end says nothing about it: a lost node, an eviction."""
        plan, attempt, end = progress.launch.plan, progress.launch.attempt, progress.end
        assert end is not None
        end = write_end(self._cluster, plan, attempt.attempt, end)
        launched = launch(self._cluster, plan, automatic=True)
        self._looked_at.discard(plan.run)
        self._earlier[plan.run] = (*self._earlier.get(plan.run, ()), attempt.model_copy(update={"end": end}))
        self.watched[plan.run] = Progress(launched, end=launched.attempt.end)

    def _unwanted(self, node: Node) -> str:
        """Why a live run is no longer wanted; "" if it is."""
        if node.replaced_by:
            return f"{node.replaced_by} takes its place"
        return node.stop.reason if node.stop else self._closed

    @property
    def _closed(self) -> str:
        closing = self.state.closing
        return closing.reason if closing and closing.stop else ""

    def _used_up(self) -> Closing | None:
        limits = self.search.limits
        if self.state.closing is not None:
            return None
        if limits.gpu_hours is not None and self.gpu_hours >= limits.gpu_hours:
            return Closing(reason=f"{limits.gpu_hours:g} GPU hours are used up", stop=True)
        if limits.hours is not None and self.seconds >= limits.hours * _HOUR:
            return Closing(reason=f"{limits.hours:g} hours have passed since it was planned", stop=True)
        return None

    @property
    def seconds(self) -> float:
        """Since it was planned."""
        return self._lasting.seconds(_SWEEP, *self._measured)

    @property
    def gpu_hours(self) -> float:
        """Of all runs so far, those that train included."""
        live = [self.watched[n.start.run].job for n in self.state.live if n.start.run in self.watched]
        jobs = {job.name: job.started_at for job in live if job and job.started_at}
        self._lasting.forget({_SWEEP, *jobs})
        seconds = sum(self._lasting.seconds(job, started_at) for job, started_at in jobs.items())
        return self.state.gpu_hours + seconds / _HOUR * self.record.request.base.trainer.resources.gpus

    def _forget(self) -> None:
        """Keep in memory only what is still asked about."""
        kept = {node.start.run for node in self.state.live}
        if self.search.method == "pbt":
            kept |= {node.start.run for node in self.state.newest()}
        for run in self.watched.keys() - kept:
            del self.watched[run]
            self._earlier.pop(run, None)
            self._looked_at.discard(run)

    def _wait(self) -> None:
        """Until it is time to look again, or a job has ended: the cluster is asked for that a few times in between."""
        live = [self.watched[n.start.run] for n in self.state.live if n.start.run in self.watched]
        names = [progress.launch.job for progress in live if progress.end is None]
        if len(names) < len(live):
            return  # some are over already
        pause, left = self._cluster.poll_seconds / _GLANCES, self._cluster.poll_seconds
        while left > 0:
            self._sleep(min(pause, left))
            left -= pause
            pause *= 2
            if not all(job.live for job in self._cluster.jobs.status(names).values()):
                return
