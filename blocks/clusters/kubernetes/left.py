"""Pods whose Job was deleted without them, or before they had ended: a program may still run in them. Pure."""

from collections.abc import Sequence
from typing import Any

from blocks.clusters.kubernetes import labels as marks
from blocks.clusters.kubernetes.jobset import uids

Json = dict[str, Any]

_KIND = "Left"
REASON = "Its Job was deleted, and its pod is being ended."


def left(pods: Sequence[Json], jobs: Sequence[Json]) -> dict[str, list[Json]]:
    """Name of a job → pods of it that belong to none of `jobs`, an ended one included that nobody deletes.

    Args:
        pods: of jobs of ours, oldest first.
    """
    there = {uid for job in jobs for uid in uids(job)}
    found: dict[str, list[Json]] = {}
    for pod in pods:
        if not there & owners(pod) and not (_is_over(pod) and pod["metadata"].get("deletionTimestamp")):
            found.setdefault(pod["metadata"]["labels"][marks.NAME], []).append(pod)
    return found


def stand_in(name: str, pods: Sequence[Json]) -> Json | None:
    """A Job for pods that have none; None where no program can run in them any more."""
    live = [pod for pod in pods if not _is_over(pod)]
    if not live:
        return None
    first = live[0]["metadata"]
    metadata = {
        "name": name,
        "uid": next(iter(owners(live[0])), first["uid"]),
        "creationTimestamp": first["creationTimestamp"],
        "labels": first["labels"],
        "annotations": first.get("annotations") or {},
    }
    return {"kind": _KIND, "metadata": metadata, "spec": {"completions": len(live)}, "status": {}}


def is_left(job: Json) -> bool:
    """Whether a Job stands for pods that have none."""
    return job.get("kind") == _KIND


def owners(pod: Json) -> set[str]:
    """UIDs of what a pod belongs to."""
    return {owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()}


def _is_over(pod: Json) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")
