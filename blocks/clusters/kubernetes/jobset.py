"""A JobSet around the one Job of several nodes, and what both together are to everything else here: a Job. Pure.

What we write down about a launch stands on the JobSet alone; the Job that its controller makes has labels, so that one
list finds it, and says how the launch goes.
"""

import hashlib
from typing import Any

from blocks.clusters.kubernetes import labels as marks

Json = dict[str, Any]

API_VERSION = "jobset.x-k8s.io/v1alpha2"
_GROUP = "n"
"""Its one group of Jobs, whose name is in the name of every pod."""
_LONGEST = 49
"""JobSet appends `-n-0`, and Kubernetes a number and five characters: 63 for a thousand nodes."""
NEVER = {"activeDeadlineSeconds": 0}
"""Of a Job: over before it begins."""
_CONDITIONS = {"Completed": "Complete", "Failed": "Failed"}


def jobset_name(name: str) -> str:
    """Of the JobSet of a job: its own where JobSet takes that, which begins with a letter and leaves room for pods'."""
    if len(name) <= _LONGEST and name[0].isalpha():
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"job-{name[: _LONGEST - 13].rstrip('-')}-{mark}"


def child_name(name: str) -> str:
    """Of the Job that is made for a job."""
    return f"{jobset_name(name)}-{_GROUP}-0"


def wrap(job: Json) -> Json:
    """A JobSet that makes this Job once, and the Service by which its pods find each other."""
    metadata, spec = job["metadata"], dict(job["spec"])
    around = {key: spec.pop(key) for key in ("suspend", "ttlSecondsAfterFinished") if key in spec}
    labels = {key: value for key, value in metadata["labels"].items() if key != marks.QUEUE}  # what waits is the JobSet
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": API_VERSION,
        "kind": "JobSet",
        "metadata": {**metadata, "name": jobset_name(metadata["name"])},
        "spec": {
            **around,
            "failurePolicy": {"maxRestarts": 0},
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "replicatedJobs": [{"name": _GROUP, "replicas": 1, "template": template}],
        },
    }


def unwrap(jobset: Json, child: Json | None) -> Json:
    """The Job that a JobSet stands for: named as it was asked for, with the JobSet's UID, and as its own Job goes.

    Args:
        child: the Job that its controller made; None if it has not, or that one is gone.
    """
    metadata = {**jobset["metadata"], "name": jobset["metadata"]["labels"][marks.NAME]}
    if child is not None:
        noted = child["metadata"].get("annotations") or {}  # where the JobSet could not be changed
        noted = {key: noted[key] for key in (marks.STOP, marks.END) if key in noted}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **noted}
        going = {"spec": child["spec"], "status": child.get("status") or {}}
        return {"kind": "JobSet", "metadata": metadata, **going, "child": child["metadata"]["uid"]}
    (group,) = jobset["spec"]["replicatedJobs"]
    spec = {**group["template"]["spec"], "suspend": jobset["spec"].get("suspend", False)}
    conditions = [
        {**condition, "type": _CONDITIONS[condition["type"]]}
        for condition in (jobset.get("status") or {}).get("conditions") or ()
        if condition["type"] in _CONDITIONS
    ]
    return {"kind": "JobSet", "metadata": metadata, "spec": spec, "status": {"conditions": conditions}}


def is_jobset(job: Json) -> bool:
    """Whether a Job stands for a JobSet."""
    return job.get("kind") == "JobSet"


def is_made(job: Json) -> bool:
    """Whether there is a Job: a JobSet's controller makes it."""
    return not is_jobset(job) or "child" in job


def is_held(job: Json) -> bool:
    """Whether it is suspended, and its Job can not start any more: a queue may have suspended it, and a JobSet may have
    yet to suspend or make it."""
    spec = job["spec"]
    return bool(spec.get("suspend")) and NEVER.items() <= spec.items()


def uids(job: Json) -> set[str]:
    """What pods and events of a job may name as what they belong to."""
    return {uid for uid in (job["metadata"].get("uid"), job.get("child")) if uid}


def parent(job: Json) -> str | None:
    """UID of the JobSet that made a Job; None if none did."""
    owners = job["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner["kind"] == "JobSet"), None)


def is_child(job: Json) -> bool:
    """Whether a Job is one that a JobSet made, which may have let go of it since."""
    metadata = job["metadata"]
    return parent(job) is not None or metadata["name"] != (metadata.get("labels") or {}).get(marks.NAME)
