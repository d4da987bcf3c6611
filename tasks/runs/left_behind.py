"""Live jobs of runs that are on record no more, or were planned anew: their records were removed by hand, and they go
on in directories that another run of the name would take for its own. The cluster's labels tell of them."""

import re

from blocks.clusters.errors import ConflictError
from blocks.clusters.job import JobStatus
from blocks.clusters.port import Cluster
from tasks.runs.job import ATTEMPT_LABEL, RUN_LABEL, VOLUME_LABEL, job_name
from tasks.runs.records import PlanRecord


def left_behind(cluster: Cluster, volume: str, run: str, plan: PlanRecord | None = None) -> list[JobStatus]:
    """The live jobs that carry a run's name and are not of its plan.

    Args:
        plan: the one on record, None where there is none. Any attempt of it is its own, also one that another flow has
            begun meanwhile.
    """
    found = cluster.jobs.find({VOLUME_LABEL: volume, RUN_LABEL: run})
    return [job for job in found if job.live and (plan is None or job.name != _own(plan, job))]


def trials_left_behind(cluster: Cluster, volume: str, sweep: str) -> list[JobStatus]:
    """The live jobs of trials that carry the name of a sweep which is not on record."""
    trial = re.compile(rf"{re.escape(sweep)}-t\d{{3,}}(-[a-z]\d+)?")
    found = cluster.jobs.find({VOLUME_LABEL: volume})
    return [job for job in found if job.live and trial.fullmatch(job.labels.get(RUN_LABEL, ""))]


def refuse_beside(volume: str, jobs: list[JobStatus]) -> None:
    """Refuse to begin a run beside jobs that were left behind.

    Args:
        jobs: found before their records were looked for and missed: those of a run that begins meanwhile are its own.

    Raises:
        ConflictError: there are such jobs.
    """
    if jobs:
        run = jobs[0].labels[RUN_LABEL]
        raise ConflictError(
            f"Job {jobs[0].name} of a run {run!r} is live on volume {volume}, and that run is on record no more: its "
            "records were removed.",
            f"Stop it: slipway runs stop {run} --volume {volume}; or wait for its end.",
        )


def _own(plan: PlanRecord, job: JobStatus) -> str:
    number = job.labels.get(ATTEMPT_LABEL, "")
    return job_name(plan, int(number)) if number.isdecimal() else ""
