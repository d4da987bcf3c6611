"""What mounts a volume, by the names that people know. Pure."""

import json
from collections.abc import Sequence
from typing import Any

from blocks.clusters.kubernetes import labels as marks
from blocks.clusters.kubernetes.jobset import uids

Json = dict[str, Any]


def users(pods: Sequence[Json], jobs: Sequence[Json]) -> dict[str, list[str]]:
    """Claim → what mounts it, or will once it has a pod.

    Anybody's pod counts, ours or not, one that is ending too; internal sessions never do. A stranger's ended pod
    counts, too: Kubernetes keeps a claim for as long as any pod names it.

    Args:
        pods: all of the namespace.
        jobs: ours.
    """
    found: dict[str, list[str]] = {}

    def note(claim: str, user: str) -> None:
        if user not in (there := found.setdefault(claim, [])):
            there.append(user)

    ended = {
        owner["uid"]
        for pod in pods
        if pod["status"].get("phase") in ("Succeeded", "Failed")
        for owner in pod["metadata"].get("ownerReferences") or ()
    }
    for job in jobs:
        if not _is_over(job) and not uids(job) & ended:
            for mount in json.loads((job["metadata"].get("annotations") or {}).get(marks.MOUNTS, "[]")):
                note(mount["volume"], f"job {job['metadata']['name']}")
    for pod in pods:
        over = pod["status"].get("phase") in ("Succeeded", "Failed")
        user = who(pod)
        if user is None or (over and marks.KIND in (pod["metadata"].get("labels") or {})):
            continue
        for volume in pod["spec"].get("volumes") or ():
            if source := volume.get("persistentVolumeClaim"):
                note(source["claimName"], f"{user} (ended; delete it)" if over else user)
    return found


def who(pod: Json) -> str | None:
    """What people call a pod; None for an internal session, which makes way for everything."""
    name, labels = pod["metadata"]["name"], pod["metadata"].get("labels") or {}
    match labels.get(marks.KIND):
        case "session" if labels.get(marks.INTERNAL) == "true":
            return None
        case "job":
            return f"job {labels.get(marks.NAME, name)}"
        case "session":
            return f"session {name}"
        case "call":
            return f"call {name}"
    return f"pod {name}"


def _is_over(job: Json) -> bool:
    annotations = job["metadata"].get("annotations") or {}
    stopped = (marks.STOP in annotations or marks.END in annotations) and job["spec"].get("suspend")
    conditions = (job.get("status") or {}).get("conditions") or ()
    return bool(stopped) or any(c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions)
