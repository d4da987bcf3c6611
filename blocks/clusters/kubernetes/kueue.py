"""Why Kueue has not admitted a job yet: what the Workload says that it keeps for each.

Labels and conditions are those of https://kueue.sigs.k8s.io/docs/tasks/troubleshooting/troubleshooting_jobs/; they are
alike in v1beta1 and v1beta2.
"""

from collections.abc import Sequence
from typing import Any

from blocks.clusters.kubernetes.api import Api, ApiError
from blocks.clusters.kubernetes.place import KUEUE, Place

Json = dict[str, Any]

_JOB_UID = "kueue.x-k8s.io/job-uid"
_LONGEST = 300  # characters of a message: Kueue names each flavor of each pod set


def waits(api: Api, place: Place) -> dict[str, str]:
    """UID of a job or a JobSet → what it waits for. Nothing where there is no Kueue, or it is not ours to see."""
    try:
        group = api.find(KUEUE)
        if group is None:
            return {}
        found = api.items(place.kueue_workloads(group["preferredVersion"]["version"]))
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        return {}
    return {uid: why for workload in found if (uid := _job(workload)) and (why := wait(workload))}


def _job(workload: Json) -> str | None:
    metadata = workload["metadata"]
    owners = [owner["uid"] for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    return (metadata.get("labels") or {}).get(_JOB_UID) or next(iter(owners), None)


def wait(workload: Json) -> str:
    """What a Workload that is not admitted waits for; empty for one that is."""
    status = workload.get("status") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    if workload["spec"].get("active") is False:
        return "its Workload was deactivated, and Kueue leaves it where it is"
    if _holds(conditions, "Admitted"):
        return ""
    if _holds(conditions, "QuotaReserved"):
        return _checks(status.get("admissionChecks") or ())
    told = [conditions["Evicted"]] if _holds(conditions, "Evicted") else []  # until it has its turn again
    told += [conditions["QuotaReserved"]] if "QuotaReserved" in conditions else []
    messages = dict.fromkeys(_short(condition["message"]) for condition in told if condition.get("message"))
    return "; ".join(messages) or "Kueue has not looked at it yet"


def _holds(conditions: Json, kind: str) -> bool:
    return bool(conditions.get(kind, {}).get("status") == "True")


def _checks(checks: Sequence[Json]) -> str:
    open_ = [check for check in checks if check["state"] != "Ready"]
    if not open_:
        return "its quota is reserved"
    said = "; ".join(f"{c['name']} is {c['state']}{': ' * bool(c.get('message'))}{c.get('message', '')}" for c in open_)
    return _short(f"its quota is reserved, and of its admission checks {said}")


def _short(message: str) -> str:
    line = " ".join(message.split()).rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
