"""Brings a run to a live job or to its end, however often and by whomever it is asked for: never twice, never lost."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from blocks.clusters.errors import NotFoundError, SlipwayError
from blocks.clusters.job import JobStatus
from blocks.clusters.names import meant
from blocks.clusters.port import Cluster
from tasks.pod.checkpoints.verdict import Verdict
from tasks.runs.decision import Decision, decide, gone
from tasks.runs.held import HELD, is_held, lacks_room
from tasks.runs.job import job_name, job_of
from tasks.runs.left_behind import left_behind, refuse_beside
from tasks.runs.records import Attempt, End, PlanRecord, RunRecord
from tasks.runs.version import slipway_version


@dataclass(frozen=True)
class Launch:
    """An attempt that is live, or the last one of a run that is over.

    Args:
        adopted: its job was there before.
    """

    plan: PlanRecord
    attempt: Attempt
    adopted: bool

    @property
    def job(self) -> str:
        return self.attempt.job or job_name(self.plan, self.attempt.attempt)

    def begun(self, seen: dict[str, Any]) -> "Launch":
        """With what its init command has written down since (see `tasks.pod.observe`)."""
        attempt = Attempt.read(f"run {self.plan.run}", self.attempt.model_dump() | seen)
        return replace(self, attempt=attempt)


def launch(cluster: Cluster, plan: PlanRecord, *, automatic: bool = False, trust: Sequence[str] = ()) -> Launch:
    """Start the next attempt of a run, adopt the live one, or return the last one if the run is over, or is held and
    there is no room yet.

    Args:
        plan: the plan on record, not one just made.
        automatic: a retry by Prefect: failures of the program itself are not tried again.
        trust: paths of `unknown` checkpoints that the person who asks now has vouched for: an attempt's, not the
            plan's, so that a run can be asked for again with it.

    Raises:
        ProgramError: prepare refused (a changed source, a doubtful newer checkpoint); nothing was launched.
        ConflictError: a job of the name is live whose records were removed.
    """
    for _ in range(8):  # each turn writes one record or submits one job; two flows may take turns
        record = read_run(cluster, plan.volume, plan.run)
        job = job_of_last(cluster, record)
        decision = decide(
            record,
            job,
            complete_at_end=_gone(record, job) and complete_at_end(cluster, record),
            automatic=automatic,
        )
        if decision.do == "start" and is_held(record.last) and lacks_room(cluster, plan, checkpoints(cluster, plan)):
            assert record.last is not None
            return Launch(plan, record.last, adopted=True)
        done = _act(cluster, record, decision, trust)
        if done is not None:
            return done
    raise RuntimeError(f"run {plan.run} does not settle")  # pragma: no cover


def _act(cluster: Cluster, record: RunRecord, decision: Decision, trust: Sequence[str]) -> Launch | None:
    plan, last = record.plan, record.last
    match decision.do:
        case "start":
            refuse_beside(plan.volume, left_behind(cluster, plan.volume, plan.run, plan))
            prepare(cluster, plan, decision.attempt, trust)
        case "end":
            assert decision.end is not None
            write_end(cluster, plan, decision.attempt, decision.end)
        case "submit":
            assert last is not None
            cluster.jobs.submit(job_of(plan, last))
            return Launch(plan, last, adopted=False)
        case "adopt" | "leave":
            assert last is not None
            return Launch(plan, last, adopted=True)
    return None


def stop(cluster: Cluster, volume: str, run: str, *, reason: str, cause: str = "stopped") -> End | None:
    """Stop the live attempt of a run, or one that is held, and write down how it ended; None if nothing of it is live.
    A live job of the name whose records were removed is stopped, too.

    Args:
        reason: why, for the record: "cancelled in Prefect", "stopped by hand".
        cause: "stopped", or "held" for a run that is to go on.

    Raises:
        NotFoundError: no such run.
    """
    try:
        record = read_run(cluster, volume, run)
    except NotFoundError:
        if (end := _stop_left_behind(cluster, volume, run)) is None:
            raise
        return end
    if end := _stop_left_behind(cluster, volume, run, record.plan):
        return end
    last, job = record.last, job_of_last(cluster, record)
    if last is not None and is_held(last) and cause != HELD:  # an attempt that never starts says that it is over
        prepare(cluster, record.plan, last.attempt + 1)
        return write_end(cluster, record.plan, last.attempt + 1, End(state="stopped", cause=cause, reason=reason))
    if last is None or last.end is not None:
        return None
    if job is None:  # not submitted yet: whoever is about to finds the end on record, and its job refuses to start
        end = (
            gone(complete_at_end(cluster, record)) if last.started else End(state="stopped", cause=cause, reason=reason)
        )
        return write_end(cluster, record.plan, last.attempt, end)
    if not job.live:
        return write_end(cluster, record.plan, last.attempt, End.of(job))
    end = End.of(cluster.jobs.stop(job.name))
    if end.state == "stopped":
        end = end.model_copy(update={"reason": reason, "cause": cause})
    now = read_run(cluster, volume, run).last  # its job may have gone on as the next one meanwhile
    return write_end(cluster, record.plan, now.attempt if now and now.job == last.job else last.attempt, end)


def _stop_left_behind(cluster: Cluster, volume: str, run: str, plan: PlanRecord | None = None) -> End | None:
    ends = [End.of(cluster.jobs.stop(job.name)) for job in left_behind(cluster, volume, run, plan)]
    return ends[-1].model_copy(update={"reason": "its job was live, and on record no more"}) if ends else None


def prepare(cluster: Cluster, plan: PlanRecord, attempt: int, trust: Sequence[str] = ()) -> None:
    arguments = {
        "run": plan.run,
        "attempt": attempt,
        "job": job_name(plan, attempt),
        "trust": list(trust),
        "version": slipway_version(),
    }
    cluster.call(plan.volume, "runs.prepare", arguments, writable=True)


def hold(cluster: Cluster, plan: PlanRecord) -> str | None:
    """Hold the source of a fork; return where, or None for a run from base weights. Again is a no-op.

    Raises:
        ProgramError: its bytes are no longer those that were chosen.
    """
    source = plan.resolved.source
    if source is None:
        return None
    arguments = {"fork": plan.run, "source": source.path, "fingerprint": source.fingerprint, "mode": source.mode}
    held: str = cluster.call(plan.volume, "holds.make", arguments, writable=True)["path"]
    return held


def write_end(cluster: Cluster, plan: PlanRecord, attempt: int, end: End) -> End:
    """Write down how an attempt ended; return what is on record, which an earlier writer may have decided."""
    arguments = {"run": plan.run, "attempt": attempt, "end": end.model_dump(mode="json")}
    return End.read(f"run {plan.run}", cluster.call(plan.volume, "runs.end", arguments, writable=True)["end"])


def read_run(cluster: Cluster, volume: str, run: str) -> RunRecord:
    shown = cluster.call(volume, "runs.show", {"run": run})
    if shown["plan"] is None:
        there = [r["run"] for r in cluster.call(volume, "runs.list", {})["runs"]]
        raise NotFoundError(f"Volume {volume} has no run {run!r}.", meant(run, there, "Runs"))
    return RunRecord.read(f"run {run}", shown)


def read_runs(cluster: Cluster, volume: str) -> tuple[list[RunRecord], dict[str, str]]:
    """The runs of a volume that were not deleted, oldest first, and run → what is wrong with its records."""
    answer = cluster.call(volume, "runs.list", {})
    found, damaged = [], dict(answer["damaged"])
    for shown in answer["runs"]:
        try:
            found.append(RunRecord.read(f"run {shown['run']}", shown))
        except SlipwayError as error:
            damaged[shown["run"]] = str(error)
    return found, damaged


def job_of_last(cluster: Cluster, record: RunRecord) -> JobStatus | None:
    if record.last is None or record.last.job is None:
        return None
    return cluster.jobs.status([record.last.job]).get(record.last.job)


def complete_at_end(cluster: Cluster, record: RunRecord) -> bool:
    """Whether the run has a complete checkpoint at its last step."""
    steps = [c["step"] for c in checkpoints(cluster, record.plan) if c["verdict"] == Verdict.COMPLETE]
    return record.plan.max_steps is not None and record.plan.max_steps in steps


def checkpoints(cluster: Cluster, plan: PlanRecord, *, deep: bool = False) -> list[dict[str, Any]]:
    ask = {"format": plan.trainer.checkpoint_format, "checkpoints": plan.trainer.checkpoints}
    answer = cluster.call(plan.volume, "checkpoints.look", {"runs": {plan.run: ask}, "deep": deep})
    found: list[dict[str, Any]] = answer["reports"][plan.run]["checkpoints"]
    return found


def _gone(record: RunRecord, job: JobStatus | None) -> bool:
    return job is None and record.last is not None and record.last.started and record.last.end is None
