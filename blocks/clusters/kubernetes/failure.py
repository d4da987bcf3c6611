"""Why a failed pod failed. Pure."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from blocks.clusters.job import Cause
from blocks.clusters.kubernetes import labels as marks
from blocks.clusters.kubernetes.times import read_time

Json = dict[str, Any]

BEGAN_BEFORE = 75
"""The exit code with which an init command says so."""

_NO_START = ("StartError", "ContainerCannotRun")
_UNSEEN = ("ContainerStatusUnknown", "Unknown")
"""A kubelet's word for a container that it does not find any more, and containerd's, with exit code 255, for one whose
process it does not find: after a node was restarted."""
_LINES_BYTES = 2048  # what a kubelet takes from the end of a log


@dataclass(frozen=True)
class Ended:
    cause: Cause
    reason: str
    exit_code: int | None = None
    last_lines: tuple[str, ...] = ()


DISRUPTIONS = {
    "PreemptionByScheduler": (Cause.EVICTED, "It was preempted by a job of higher priority"),
    "EvictionByEvictionAPI": (Cause.EVICTED, "It was evicted (a drain of its node, usually)"),
    "TerminationByKubelet": (Cause.EVICTED, "Its node evicted it"),
    "DeletionByTaintManager": (Cause.LOST, "Its node went away, or was tainted"),
    "DeletionByPodGC": (Cause.LOST, "Its node is gone"),
}
"""Reasons of a pod's DisruptionTarget condition."""

POD_REASONS = {
    "Evicted": (Cause.EVICTED, "Its node evicted it"),
    "Preempting": (Cause.EVICTED, "It was preempted"),
    "Preempted": (Cause.EVICTED, "It was preempted"),
    "NodeShutdown": (Cause.EVICTED, "Its node was shut down"),
    "Terminated": (Cause.EVICTED, "Its node was shut down"),
    "NodeAffinity": (Cause.EVICTED, "Its node no longer fits it"),
    "UnexpectedAdmissionError": (Cause.EVICTED, "Its node could not give it its devices"),
    "SysctlForbidden": (Cause.START, "Its node does not allow a sysctl that its pod patch asks for"),
    "AppArmor": (Cause.START, "Its node does not have the AppArmor profile that its pod patch asks for"),
    "NodeLost": (Cause.LOST, "Its node is gone"),
}
"""Reasons of a failed pod itself. `OutOf<resource>` is one more."""


def failure(pod: Json, annotations: Mapping[str, str]) -> Ended:
    """Why a pod in phase Failed failed: what was done to it, else what its containers did.

    Args:
        annotations: of its Job.
    """
    status = pod["status"]
    said = str(status.get("message", "")).rstrip(".")
    reason = str(status.get("reason", ""))
    containers = _containers(pod)
    last = next((s for _, s, _ in reversed(containers) if s), {})
    code, lines = last.get("exitCode"), _lines(last.get("message"))
    if reason == "DeadlineExceeded":
        limit = annotations.get(marks.DEADLINE) or "?"
        return Ended(Cause.DEADLINE, f"It ran past its deadline of {limit} seconds.", code, lines)
    done = POD_REASONS.get(reason)
    if done is None and reason.startswith("OutOf"):
        done = (Cause.EVICTED, "Its node had no room for it after all")
    for condition in status.get("conditions") or ():
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True" and done is None:
            done = DISRUPTIONS.get(condition.get("reason", ""), (Cause.EVICTED, "It was taken from its node"))
            said = said or str(condition.get("message", "")).rstrip(".")
    if done is not None:
        return Ended(done[0], f"{done[1]}{f': {said}' if said else ''}.", code, lines)
    for name, ended, init in containers:
        if ended and ended.get("exitCode") != 0:
            return _container(name, ended, init=init, limit=_limit(pod, name))
    return Ended(Cause.LOST, f"Its pod failed without a word of its containers. {reason} {said}".strip() + ".")


def taken_away(pod: Json) -> Ended | None:
    """How a pod ended that was deleted, or had to go, while it ran; None if it ended by itself.

    A program that ends in good order when it is told to looks like one that was done: exit code 0, phase Succeeded.
    """
    disrupted = [c for c in pod["status"].get("conditions") or () if c["type"] == "DisruptionTarget"]
    if any(c["status"] == "True" for c in disrupted):
        return failure(pod, {})
    deleted = read_time(pod["metadata"].get("deletionTimestamp"))
    ends = [read_time(ended.get("finishedAt")) for _, ended, init in _containers(pod) if not init]
    if deleted is None or not any(ends):
        return None
    asked = deleted - timedelta(seconds=pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    if max(end for end in ends if end) < asked:
        return None
    return Ended(Cause.LOST, "Its pod was deleted while it ran.")


def _containers(pod: Json) -> list[tuple[str, Json, bool]]:
    """Name, how it ended, whether it is an init container; in their order."""
    found = []
    for key, init in (("initContainerStatuses", True), ("containerStatuses", False)):
        for status in pod["status"].get(key) or ():
            if status["name"] == marks.ALIVE:
                continue
            found.append((status["name"], (status.get("state") or {}).get("terminated") or {}, init))
    return found


def _container(name: str, ended: Json, *, init: bool, limit: str) -> Ended:
    code, said = ended["exitCode"], str(ended.get("message", ""))
    who = "Its init command" if init else "Its command"
    if ended.get("reason") == "OOMKilled":
        reason = f"Container {name!r} used more memory than its limit of {limit}. Ask for more, or use less."
        return Ended(Cause.OUT_OF_MEMORY, reason, code, _lines(said))
    if ended.get("reason") in _NO_START:
        return Ended(Cause.START, f"{who} could not be started: {said.rstrip('.')}.", code)
    if ended.get("reason") in _UNSEEN:
        return Ended(Cause.LOST, "Nobody saw how its container ended: its node was restarted, or lost it.")
    if init and code == BEGAN_BEFORE:
        reason = "It was taken back after it had begun (by a queue, or with its node), and may not begin twice."
        return Ended(Cause.EVICTED, reason, code, _lines(said))
    cause = Cause.INIT if init else Cause.EXIT
    if 128 < code < 160:
        try:
            number = signal.Signals(code - 128).name
        except ValueError:
            return Ended(cause, f"{who} exited with code {code}.", code, _lines(said))
        culprit = "; out of memory is a usual culprit where a node runs short" if number == "SIGKILL" else ""
        cause = cause if init else Cause.SIGNAL
        return Ended(cause, f"{who} was killed by {number}{culprit}.", code, _lines(said))
    return Ended(cause, f"{who} exited with code {code}.", code, _lines(said))


def _limit(pod: Json, name: str) -> str:
    for key in ("initContainers", "containers"):
        for container in pod["spec"].get(key) or ():
            if container["name"] == name:
                memory = ((container.get("resources") or {}).get("limits") or {}).get("memory")
                return str(memory or "its node")
    return "its node"


def _lines(message: str | None) -> tuple[str, ...]:
    """The end of a log. Its first line is cut where it did not fit."""
    lines = (message or "").splitlines()
    if message and len(message.encode()) >= _LINES_BYTES and len(lines) > 1:
        lines = lines[1:]
    return tuple(lines)
