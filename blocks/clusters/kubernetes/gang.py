"""How a job of several nodes goes: all of its pods together. One that is lost ends the attempt for all. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from blocks.clusters.job import JobState
from blocks.clusters.kubernetes.diagnosis import Diagnosis

Json = dict[str, Any]

INDEX = "batch.kubernetes.io/job-completion-index"


def size(job: Json) -> int:
    """How many nodes a job asks for."""
    return int(job["spec"].get("completions") or 1)


def index(pod: Json) -> int:
    """Which of its job's nodes a pod is."""
    return int((pod["metadata"].get("annotations") or {}).get(INDEX, 0))


def newest(pods: Sequence[Json]) -> list[Json]:
    """The newest pod of each node, in the order of the nodes.

    Args:
        pods: of one job, oldest first.
    """
    return [pod for _, pod in sorted({index(pod): pod for pod in pods}.items())]


def together(
    job: Json, pods: Sequence[Json], each: Callable[[Json | None], Diagnosis]
) -> tuple[Diagnosis, Json | None]:
    """How a job goes, and the pod that decides it.

    Args:
        pods: one a node, as `newest` gives them.
        each: how one pod goes; without one, what the job alone says.
    """
    if size(job) == 1 or not pods:
        pod = pods[-1] if pods else None
        return each(pod), pod
    alone = each(None)
    if alone.give_up and len(pods) < size(job):
        return alone, pods[0]
    if not alone.state.live and not alone.give_up:
        ended = [pod for pod in pods if pod["status"].get("phase") == "Failed"]
        culprit = min(ended, key=_end, default=None)
        if _running(pods):
            return Diagnosis(JobState.RUNNING, "one of its nodes has ended; the others are being ended"), pods[0]
        return (_named(job, culprit, each(culprit)), culprit) if culprit else (alone, pods[0])
    found = [(each(pod), pod) for pod in pods]
    for wanted in (_gives_up, _has_failed, _waits):
        for diagnosis, pod in sorted(found, key=lambda pair: _end(pair[1])):
            if wanted(diagnosis):
                if wanted is _has_failed and _running(pods):
                    why = f"node {index(pod)} has ended; the others are being ended"
                    return Diagnosis(JobState.RUNNING, why), pod
                return _named(job, pod, diagnosis), pod
    if len(pods) < size(job):
        reason = f"{size(job) - len(pods)} of its {size(job)} pods are not there: {alone.reason}"
        return replace(alone, reason=reason), pods[0]
    return next((pair for pair in found if pair[0].state is JobState.RUNNING), found[0])


def _gives_up(found: Diagnosis) -> bool:
    return found.give_up


def _has_failed(found: Diagnosis) -> bool:
    return not found.state.live and found.state is not JobState.COMPLETED


def _waits(found: Diagnosis) -> bool:
    return found.state in (JobState.QUEUED, JobState.STARTING)


def _running(pods: Sequence[Json]) -> bool:
    """Whether a program may still run: the next attempt must not begin before it has ended."""
    return any(pod["status"].get("phase") in ("Running", "Unknown") for pod in pods)


def _end(pod: Json) -> tuple[bool, str]:
    """Order of ends; pods that were only deleted because another one ended come last."""
    ends = [
        ((status.get("state") or {}).get("terminated") or {}).get("finishedAt") or ""
        for key in ("initContainerStatuses", "containerStatuses")
        for status in pod["status"].get(key) or ()
    ]
    return bool(pod["metadata"].get("deletionTimestamp")), max(filter(None, ends), default="9")


def _named(job: Json, pod: Json, found: Diagnosis) -> Diagnosis:
    reason = found.reason[:1].lower() + found.reason[1:] if found.state.live else found.reason
    return replace(found, reason=f"{'n' if found.state.live else 'N'}ode {index(pod)} of {size(job)}: {reason}")
