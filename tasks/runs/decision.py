"""What to do when a run is asked for: adopt what runs, start an attempt, or say what became of it. Pure."""

from dataclasses import dataclass
from typing import Literal

from blocks.clusters.job import JobStatus
from tasks.runs.records import End, RunRecord


@dataclass(frozen=True)
class Decision:
    """One step towards a running or ended run.

    Args:
        do: "start" attempt `attempt`; "submit" the job of an attempt on record that nobody started; "adopt" its live
            job; write down an "end" that nobody has recorded; or "leave" the run, which is over.
    """

    do: Literal["start", "submit", "adopt", "end", "leave"]
    attempt: int
    end: End | None = None


def decide(record: RunRecord, job: JobStatus | None, *, complete_at_end: bool, automatic: bool) -> Decision:
    """Decide from the records and the cluster's word alone; two flows that look at once decide the same.

    Args:
        job: the job of the last attempt, if the cluster still has it.
        complete_at_end: the run has a complete checkpoint at its last step.
        automatic: this is a retry by Prefect, not a person's request: only infrastructure causes start again.
    """
    last = record.last
    if last is None:
        return Decision("start", 1)
    if last.end is not None:
        over = last.end.state == "completed" or (automatic and not last.end.infrastructure)
        return Decision("leave", last.attempt, last.end) if over else Decision("start", last.attempt + 1)
    if job is not None and job.unstarted:
        return Decision("submit", last.attempt)
    if job is not None:
        return Decision("adopt", last.attempt) if job.live else Decision("end", last.attempt, End.of(job))
    taken_back = any(earlier.job == last.job for earlier in record.attempts[:-1])  # made for an attempt before
    if not last.started and not taken_back:
        return Decision("submit", last.attempt)
    return Decision("end", last.attempt, gone(complete_at_end))


def gone(complete_at_end: bool) -> End:
    """The end of an attempt whose job was deleted or forgotten before anybody wrote its end down."""
    if complete_at_end:
        return End(
            state="completed",
            cause="completed",
            reason="its job is gone, and the checkpoint of its last step is complete",
        )
    return End(state="lost", cause="lost", reason="its job is gone and nobody saw how it ended")
