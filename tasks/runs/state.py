"""What state a run is in: the records say what has ended, the cluster says what is live."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from blocks.clusters.job import JobStatus
from blocks.clusters.port import Cluster
from tasks.runs.decision import gone
from tasks.runs.held import is_held
from tasks.runs.records import RunRecord

State = Literal["planned", "queued", "starting", "running", "completed", "failed", "stopped", "lost", "held"]


class RunState(BaseModel):
    """The state of a run, with what it waits for or why it ended."""

    model_config = ConfigDict(frozen=True)

    state: State
    reason: str = ""

    @property
    def live(self) -> bool:
        return self.state in ("queued", "starting", "running")

    @property
    def over(self) -> bool:
        """Nothing of it is live, and nothing is to come unless somebody asks for it again."""
        return not self.live and self.state not in ("planned", "held")


def run_state(cluster: Cluster, records: Sequence[RunRecord]) -> dict[str, RunState]:
    """The state of each run, with one look at the cluster for all of them."""
    jobs = cluster.jobs.status([r.last.job for r in records if r.last and r.last.job and r.last.end is None])
    return {r.run: _state(r, jobs.get(r.last.job) if r.last and r.last.job else None) for r in records}


def _state(record: RunRecord, job: JobStatus | None) -> RunState:
    last = record.last
    if last is None:
        return RunState(state="planned", reason="no attempt yet")
    if is_held(last):
        assert last.end is not None
        return RunState(state="held", reason=last.end.reason)
    if last.end is not None:
        return RunState(state=last.end.state, reason=last.end.reason)
    if job is not None:
        return RunState(state=job.state.value, reason=job.reason)
    if not last.started:
        return RunState(state="planned", reason=f"attempt {last.attempt} is prepared, its job not submitted")
    end = gone(complete_at_end=False)
    return RunState(state=end.state, reason=end.reason)
