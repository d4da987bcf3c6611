"""What a Job and its pod say about how a launch goes: one state, one cause, one sentence, one deadline. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from blocks.clusters.job import Cause, JobState
from blocks.clusters.kubernetes import labels as marks
from blocks.clusters.kubernetes.failure import Ended, failure, taken_away
from blocks.clusters.kubernetes.jobset import is_held, is_made
from blocks.clusters.kubernetes.settings import KubernetesSettings
from blocks.clusters.kubernetes.times import read_time

Json = dict[str, Any]


@dataclass(frozen=True)
class Diagnosis:
    """How a launch goes.

    Args:
        give_up: Kubernetes would go on waiting, and it is not worth it: whoever sees this ends the job.
        fleeting: what shows it is about to go: whoever sees this writes it down.
        unexplained: it waits, and only the events of its Job or pod may say what for.
        queued: it waits in a queue, which may say what for.
    """

    state: JobState
    reason: str = ""
    cause: Cause | None = None
    exit_code: int | None = None
    last_lines: tuple[str, ...] = ()
    give_up: bool = False
    fleeting: bool = False
    unexplained: bool = False
    queued: bool = False


@dataclass(frozen=True)
class Wait:
    """One reason for which a container waits.

    Args:
        sentence: why, and what to do.
        grace: seconds until it is given up; None: the settings' for images.
    """

    sentence: str
    grace: int | None


WAITS = {
    "ErrImagePull": Wait("Its image can not be pulled. Check its name, its tag and the pull secret.", None),
    "ImagePullBackOff": Wait("Its image can not be pulled. Check its name, its tag and the pull secret.", None),
    "RegistryUnavailable": Wait("The registry of its image does not answer.", None),
    "SignatureValidationFailed": Wait("The signature of its image is not accepted. Use a signed image.", 60),
    "ImageInspectError": Wait("The node can not read its image. Push the image again.", 300),
    "ErrImageNeverPull": Wait("Its image is not on the node, and the policy is never to pull.", 60),
    "InvalidImageName": Wait("The name of its image is malformed. Mend it.", 0),
    "CreateContainerConfigError": Wait("A secret or a config map that it names is not there. Create it.", 120),
    "CreateContainerError": Wait("The container runtime can not make its container.", 300),
    "RunContainerError": Wait("The container runtime can not start its container.", 300),
    "CreatePodSandboxError": Wait("The node can not make its sandbox.", 900),
    "KillPodSandboxError": Wait("The node can not end an earlier sandbox.", 900),
    "NetworkNotReady": Wait("The node's network is not ready.", 900),
}
"""Waiting reasons of kubelet and runtimes. What is not here is shown as it is."""

CREATING_GRACE_SECONDS = 1800
"""For volumes to be attached and mounted, and sandboxes to be made."""

MAKING_GRACE_SECONDS = 1800
"""For a pod, or a JobSet's Job, that is refused, or that no controller makes: a webhook's server may come back."""

EXPLAIN_AFTER_SECONDS = 10

_NOT_MADE = ("FailedCreate", "JobCreationFailed", "HeadlessServiceCreationFailed")
"""Reasons of events: of a Job, of which no pod can be made, and of a JobSet, of which no Job or Service can."""


def diagnose(
    job: Json, pod: Json | None, settings: KubernetesSettings, now: datetime, events: Sequence[Json] = ()
) -> Diagnosis:
    """How the launch of `job` goes.

    Args:
        pod: its pod, or None if it has none.
        events: of the Job or its pod, newest last, where they were asked for.
    """
    annotations = job["metadata"].get("annotations") or {}
    status = job.get("status") or {}
    if pod is not None and _was_taken_back(job, pod):
        pod = None
    conditions = {c["type"]: c for c in status.get("conditions") or () if c["status"] == "True"}
    phase = ((pod or {}).get("status") or {}).get("phase")
    stopping = marks.STOP in annotations
    if marks.END in annotations:
        return _decided(annotations[marks.END])
    if pod is not None and phase in ("Succeeded", "Failed") and not stopping and (taken := taken_away(pod)):
        return replace(_ended(taken), fleeting=True)
    if "Complete" in conditions or phase == "Succeeded":
        return Diagnosis(JobState.COMPLETED, cause=Cause.COMPLETED, exit_code=0)
    over = phase == "Failed" or (pod is None and ("Failed" in conditions or is_held(job)))
    if stopping and over:
        code = failure(pod, annotations).exit_code if pod else None
        return Diagnosis(JobState.STOPPED, "Stopped on request.", Cause.STOPPED, code)
    if pod is not None and phase == "Failed":
        return _ended(failure(pod, annotations))
    if "Failed" in conditions:
        return _failed_without_a_pod(conditions["Failed"])
    if pod is None:
        return _without_a_pod(job, settings, now, events)
    found = _live(pod, settings, now, events)
    if stopping and not found.give_up:
        return Diagnosis(found.state, "is being stopped")
    if job["metadata"].get("deletionTimestamp") and not found.give_up:
        return Diagnosis(found.state, "is being deleted")
    return found


def _was_taken_back(job: Json, pod: Json) -> bool:
    """Whether a pod goes because its job was suspended, as a queue does it, and may since have been started again."""
    if not pod["metadata"].get("deletionTimestamp"):
        return False
    status = job.get("status") or {}
    started = read_time(status.get("startTime"))  # of the present start; none while suspended, and a moment longer
    made = read_time(pod["metadata"].get("creationTimestamp"))
    if started is None:
        return bool(job["spec"].get("suspend")) or any(c["type"] == "Suspended" for c in status.get("conditions") or ())
    return bool(job["spec"].get("suspend")) or (made is not None and made < started)


def _decided(text: str) -> Diagnosis:
    end = json.loads(text)
    lines = tuple(end.get("last_lines") or ())
    return Diagnosis(JobState(end["state"]), end["reason"], Cause(end["cause"]), end.get("exit_code"), lines)


def _ended(ended: Ended) -> Diagnosis:
    state = JobState.LOST if ended.cause is Cause.LOST else JobState.FAILED
    return Diagnosis(state, ended.reason, ended.cause, ended.exit_code, ended.last_lines)


def _failed_without_a_pod(condition: Json) -> Diagnosis:
    said = condition.get("message", "")
    if condition.get("reason") == "PodFailurePolicy":
        reason = f"Its pod was evicted or preempted, or its node went away: {said}."
        return Diagnosis(JobState.FAILED, reason, Cause.EVICTED)
    if condition.get("reason") == "DeadlineExceeded":
        return Diagnosis(JobState.FAILED, f"It ran past its deadline: {said}.", Cause.DEADLINE)
    reason = f"Its pod was deleted, or its node went away, and nobody saw how it ended ({condition.get('reason')})."
    return Diagnosis(JobState.LOST, reason, Cause.LOST)


def _without_a_pod(job: Json, settings: KubernetesSettings, now: datetime, events: Sequence[Json]) -> Diagnosis:
    if job["metadata"].get("deletionTimestamp"):
        return Diagnosis(JobState.QUEUED, "is being deleted")
    if job["spec"].get("suspend"):
        queue = (job["metadata"].get("labels") or {}).get(marks.QUEUE)
        if queue:
            return Diagnosis(JobState.QUEUED, f"waits in the queue {queue}", queued=True)
        return Diagnosis(JobState.QUEUED, "is suspended")
    started = read_time((job.get("status") or {}).get("startTime"))  # once a queue has let it go
    waited = (now - started).total_seconds() if started else _age(job, now)
    patience = float("inf") if _were_made(job) else MAKING_GRACE_SECONDS
    if refusals := [e["message"].rstrip(".") for e in events if e.get("reason") in _NOT_MADE]:
        said = refusals[-1]
        if "exceeded quota" in said or "failed quota" in said:
            grace = settings.queue_grace_seconds
            if grace is not None and waited > grace and not _were_made(job):
                reason = f"No quota was left for it in {grace} seconds: {said}. Ask for less, or for a larger quota."
                return Diagnosis(JobState.FAILED, reason, Cause.START, give_up=True)
            return Diagnosis(JobState.QUEUED, f"waits for quota: {said}", unexplained=True)
        if waited > patience:
            reason = f"Its pod was refused for {MAKING_GRACE_SECONDS} seconds: {said}. Mend what that names."
            return Diagnosis(JobState.FAILED, reason, Cause.START, give_up=True)
        return Diagnosis(JobState.QUEUED, f"its pod is refused: {said}", unexplained=True)
    controller, awaited = ("Kubernetes", "its pod") if is_made(job) else ("JobSet", "JobSet to make its Job")
    if waited > patience:
        reason = (
            f"Nothing was made of it in {MAKING_GRACE_SECONDS} seconds, and no event says why. "
            f"Look whether {controller}'s controller runs."
        )
        return Diagnosis(JobState.FAILED, reason, Cause.START, give_up=True)
    return Diagnosis(JobState.QUEUED, f"waits for {awaited}", unexplained=waited > 2)


def _were_made(job: Json) -> bool:
    """Whether all of a Job's pods have been there: that one is not means that it was taken from it."""
    status = job.get("status") or {}
    seen = sum(int(status.get(key) or 0) for key in ("active", "failed", "succeeded", "terminating"))
    return seen >= int(job["spec"].get("completions") or 1)


def _live(pod: Json, settings: KubernetesSettings, now: datetime, events: Sequence[Json]) -> Diagnosis:
    if (gone := _overdue(pod, settings, now)) is not None:
        return gone
    conditions = {c["type"]: c for c in pod["status"].get("conditions") or ()}
    scheduled = conditions.get("PodScheduled")
    if scheduled is None or scheduled["status"] != "True":
        return _unscheduled(pod, scheduled, settings, now)
    since = read_time(scheduled["lastTransitionTime"]) or now
    init = {s["name"]: s for s in pod["status"].get("initContainerStatuses") or () if s["name"] != marks.ALIVE}
    main = {s["name"]: s for s in pod["status"].get("containerStatuses") or ()}
    for name, container in [*init.items(), *main.items()]:
        state = container.get("state") or {}
        waiting = state.get("waiting") or {}
        if waiting.get("reason") in WAITS:
            return _waiting(name, waiting, settings, since, now)
        if "running" in state and name in init:
            return Diagnosis(JobState.STARTING, "its init command runs")
        if "running" in state:
            return Diagnosis(JobState.RUNNING)
        if "terminated" in state and name in main:
            return Diagnosis(JobState.RUNNING, "its pod ends")
    return _creating(since, now, events)


def _overdue(pod: Json, settings: KubernetesSettings, now: datetime) -> Diagnosis | None:
    """A pod on a node that does not answer stays for ever; its program may even still run there."""
    deleted = read_time(pod["metadata"].get("deletionTimestamp"))
    if deleted is None or now - deleted < timedelta(seconds=settings.gone_grace_seconds):
        return None
    node = (pod["spec"].get("nodeName")) or "its node"
    reason = (
        f"Its pod should have been gone since {deleted:%H:%M:%S} UTC, and {node} does not answer. "
        "Make sure that nothing runs there any more."
    )
    return Diagnosis(JobState.LOST, reason, Cause.LOST, give_up=True)


def _unscheduled(pod: Json, scheduled: Json | None, settings: KubernetesSettings, now: datetime) -> Diagnosis:
    said = (scheduled or {}).get("message", "").rstrip(".")
    if not said:
        return Diagnosis(JobState.QUEUED, "waits for the scheduler")
    grace = settings.queue_grace_seconds
    if grace is not None and _age(pod, now) > grace:
        reason = f"No node took it in {grace} seconds: {said}. Ask for less, or for another kind."
        return Diagnosis(JobState.FAILED, reason, Cause.START, give_up=True)
    return Diagnosis(JobState.QUEUED, f"{_what_is_missing(said, settings)}: {said}")


def _what_is_missing(said: str, settings: KubernetesSettings) -> str:
    for sign, sentence in (
        (settings.gpu_resource, "waits for GPUs"),
        ("volume node affinity conflict", "waits for a node that can reach its volume"),
        ("unbound immediate PersistentVolumeClaims", "waits for its volume to be provisioned"),
        ("persistentvolumeclaim", "waits for its volume"),
        ("pod affinity rules", "waits for room on the node that has its volume"),
        ("Insufficient memory", "waits for memory"),
        ("Insufficient cpu", "waits for CPUs"),
        ("untolerated taint", "waits for a node that takes it (tolerations)"),
        ("node affinity/selector", "waits for a node of that kind"),
    ):
        if sign in said:
            return sentence
    return "waits for a node"


def _waiting(name: str, waiting: Json, settings: KubernetesSettings, since: datetime, now: datetime) -> Diagnosis:
    wait = WAITS[waiting["reason"]]
    grace = settings.image_grace_seconds if wait.grace is None else wait.grace
    said = str(waiting.get("message", "")).strip().rstrip(".")
    who = "" if name == "main" else f" (container {name})"
    reason = f"{wait.sentence}{who} {waiting['reason']}{f': {said}' if said else ''}."
    if now - since >= timedelta(seconds=grace):
        tried = f" It was given up after {grace} seconds." if grace else ""
        return Diagnosis(JobState.FAILED, reason + tried, Cause.START, give_up=True)
    return Diagnosis(JobState.STARTING, reason)


def _creating(since: datetime, now: datetime, events: Sequence[Json]) -> Diagnosis:
    waited = (now - since).total_seconds()
    troubles = [e for e in events if e.get("type") == "Warning"]
    said = f"{troubles[-1]['reason']}: {troubles[-1].get('message', '').rstrip('.')}" if troubles else ""
    if waited > CREATING_GRACE_SECONDS:
        reason = f"It could not be started in {CREATING_GRACE_SECONDS} seconds. {said or 'No event says why'}."
        return Diagnosis(JobState.FAILED, reason, Cause.START, give_up=True)
    return Diagnosis(
        JobState.STARTING, said or "its containers are being made", unexplained=waited > EXPLAIN_AFTER_SECONDS
    )


def _age(thing: Json, now: datetime) -> float:
    made = read_time(thing["metadata"].get("creationTimestamp"))
    return (now - made).total_seconds() if made else 0.0
