"""Deletes runs, and lets forks go of what they hold."""

from typing import Any

from blocks.clusters.errors import InUseError
from blocks.clusters.port import Cluster
from tasks.runs.decision import gone
from tasks.runs.launch import complete_at_end, job_of_last, read_run, write_end
from tasks.runs.records import End, Record, RunRecord

_DAY = 86_400.0


class Released(Record):
    """What a fork let go of.

    Args:
        released: False if it held nothing any more.
        source: the step directory that was held, relative to the volume.
        own: the run's own checkpoint that it goes on from: `path` (relative to the run), `step`, `fingerprint`.
    """

    released: bool
    source: str
    own: dict[str, Any]


class Deleted(Record):
    """A run whose files are gone.

    Args:
        created: False if it had been deleted before.
    """

    run: str
    freed_bytes: int
    created: bool


def release(cluster: Cluster, volume: str, run: str) -> Released:
    """Let a fork go of its source, once it has a newer complete checkpoint of its own.

    Raises:
        ProgramError: no such run, no fork, or no such checkpoint.
    """
    return Released.model_validate(cluster.call(volume, "runs.release", {"run": run}, writable=True))


def check_deletable(cluster: Cluster, volume: str, run: str) -> RunRecord:
    """What is on record of a run that is not live; the end of one that nobody saw is written down.

    Raises:
        NotFoundError: no such run.
        InUseError: it is live, or about to be.
    """
    record = read_run(cluster, volume, run)
    last, job = record.last, job_of_last(cluster, record)
    if last is None or last.end is not None:
        return record
    if job is not None and job.live:
        raise InUseError(f"Run {run} is {job.state}.", f"Stop it first: `slipway runs stop {run}`.")
    if job is None and not last.started:
        raise InUseError(
            f"Attempt {last.attempt} of run {run} is prepared and not submitted: a flow may be about to.",
            f"Ask for the run again and stop it, or stop its flow: then `slipway runs delete {run}`.",
        )
    end = End.of(job) if job is not None else gone(complete_at_end(cluster, record))
    write_end(cluster, record.plan, last.attempt, end)
    return record


def delete(cluster: Cluster, volume: str, run: str) -> Deleted:
    """Delete a run's files. What is on record of it stays: the runs that were forked from it refer to that.

    Raises:
        NotFoundError: no such run.
        InUseError: it is live.
        ProgramError: other runs hold its checkpoints; names them.
    """
    check_deletable(cluster, volume, run)
    answer = cluster.call(volume, "runs.delete", {"run": run}, writable=True, timeout_seconds=_DAY)
    return Deleted.model_validate(answer)
