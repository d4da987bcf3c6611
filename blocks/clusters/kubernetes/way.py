"""Whether an internal session decides where a job can go, on a volume that one node at a time can mount. Pure."""

from collections.abc import Sequence
from typing import Any

from blocks.clusters.kubernetes import labels as marks

Json = dict[str, Any]


def in_the_way(pods: Sequence[Json], able: Sequence[str] | None) -> bool:
    """Whether the job could go to another node if the volume's internal session ended.

    It could not where something else keeps the volume on that node, or where no other node could take the job: then
    ending the session gains nothing, and the next look beside the data would have to start it again.

    Args:
        pods: those that mount the volume, or will; none that is over.
        able: names of the nodes that could take the job; None if there may be others.
    """
    sessions = [pod for pod in pods if _is_internal(pod)]
    at = {pod["spec"].get("nodeName") for pod in sessions}
    pinned = any(pod["spec"].get("nodeName") for pod in pods if not _is_internal(pod))
    return bool(sessions) and not pinned and (able is None or not at.issuperset(able))


def _is_internal(pod: Json) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get(marks.INTERNAL) == "true")
