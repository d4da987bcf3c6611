"""Stages one thing: one job per identity, adopted by everyone who asks at the same time."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from blocks.clusters.errors import ConflictError, SlipwayError
from blocks.clusters.job import Job, JobState, JobStatus, Mount, SecretRef
from blocks.clusters.names import fit_name
from blocks.clusters.port import Cluster
from tasks.runs.job import ATTEMPT_LABEL
from tasks.runs.request import hash_request

STAGE_LABEL = "slipway.dev/stage"
_LONGEST = 52

Notice = Callable[[dict[str, Any]], None]


class Access(Protocol):
    """How to reach a hub or a bucket: what a job needs for it."""

    def env(self) -> dict[str, str]: ...

    def secrets(self) -> dict[str, SecretRef]: ...


class StagingError(SlipwayError):
    """A staging job that did not end well."""


def stage(
    cluster: Cluster,
    volume: str,
    kind: str,
    identity: str,
    arguments: dict[str, Any],
    notice: Notice,
    *,
    program: str = "stage",
    access: Access | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Run the staging job of an identity to its end, or follow the one that runs; return what it answered.

    Args:
        kind, program: of `tasks.pod.program`, such as "snapshots" and "stage".
        identity: from `tasks.pod.staging`.
        arguments: the program's; the job's request hash is made of them.
        notice: gets the progress note (bytes and files done and in all) after every look.
        access: whose credentials the job gets.

    Raises:
        StagingError: the job failed; its own words are in the message, what it had fetched is kept.
    """
    label = fit_name(program, volume, identity)
    asked = _job(volume, f"{kind}.{program}", label, arguments, access)
    job = _submit(cluster, asked)
    while job.live:
        sleep(cluster.poll_seconds)
        progress = cluster.call(volume, "staging.progress", {"identities": [identity]})
        notice(progress.get(identity) or {"what": job.reason or "waiting for the job to start"})
        job = cluster.jobs.status([job.name]).get(job.name) or job.model_copy(update={"state": JobState.LOST})
        if job.unstarted:
            job = _submit(cluster, asked)
    if job.state is not JobState.COMPLETED:
        raise _failure(job)
    return _answer(cluster, job, sleep)


def _answer(cluster: Cluster, job: JobStatus, sleep: Callable[[float], None]) -> dict[str, Any]:
    """The last answer in its log. Lines of standard error may come after it: a cluster merges two pipes into one log,
    and may still be writing the end of it when the job has ended."""
    for _ in range(5):
        found = [line for line in cluster.jobs.logs(job.name) if line.startswith('{"ok": {')]
        if found:
            answer: dict[str, Any] = json.loads(found[-1])["ok"]
            return answer
        sleep(1)
    raise StagingError(f"The log of staging job {job.name} has no answer.", "Ask again.")


def _job(volume: str, program: str, label: str, arguments: dict[str, Any], access: Access | None) -> Job:
    return Job(
        name=label,
        request_hash=hash_request({"program": program, **arguments}),
        command=("python", "-m", "tasks.pod.program", program, json.dumps(arguments)),
        env=access.env() if access else {},
        secrets=access.secrets() if access else {},
        mounts=(Mount(volume=volume, read_only=False),),
        labels={STAGE_LABEL: label},
    )


def _submit(cluster: Cluster, job: Job) -> JobStatus:
    """Adopt the live job of this label, else submit the next attempt; two that ask at once submit the same one. A job
    that nobody came to start is submitted again."""
    earlier = cluster.jobs.find({STAGE_LABEL: job.labels[STAGE_LABEL]})
    if earlier and earlier[-1].live and not earlier[-1].unstarted:
        return earlier[-1]
    if earlier and earlier[-1].unstarted:
        last = earlier[-1]
        with suppress(ConflictError):  # of another hub, say: that one is ended, and ours is the next
            return cluster.jobs.submit(job.model_copy(update={"name": last.name, "labels": last.labels}))
        cluster.jobs.stop(last.name)
    number = 1 + max([len(earlier), *(int(known.labels.get(ATTEMPT_LABEL, 0)) for known in earlier)])
    name = fit_name(job.labels[STAGE_LABEL], f"a{number}", longest=_LONGEST)
    return cluster.jobs.submit(
        job.model_copy(update={"name": name, "labels": {**job.labels, ATTEMPT_LABEL: str(number)}})
    )


def _failure(job: JobStatus) -> StagingError:
    said = [line.removeprefix("error: ") for line in job.last_lines if line.startswith("error: ")]
    if said:
        return StagingError(said[-1], "What is done is kept: asking again goes on from there.")
    return StagingError(
        f"The staging job {job.name} ended as {job.state}: {job.reason}.",
        "What is done is kept: asking again goes on from there.",
    )
