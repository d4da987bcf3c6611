"""A run that is held: its attempt was stopped after a completed checkpoint because the next one would not fit.

Nothing of it is lost, its GPUs are free, and it goes on once there is room on the volume.
"""

from collections.abc import Sequence
from typing import Any

from blocks.clusters.port import Cluster
from blocks.clusters.size import format_size
from tasks.runs.records import Attempt, PlanRecord

HELD = "held"
"""The cause of such an end."""


def is_held(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.end is not None and attempt.end.cause == HELD


def free_bytes(cluster: Cluster, volume: str) -> int:
    """What can still be written to a volume."""
    return int(cluster.call(volume, "volume.room", {"size_bytes": cluster.volumes.get(volume).capacity})["free_bytes"])


def shortage(volume: str, needed: int, free: int) -> str:
    """In words, why a save does not fit."""
    return f"its next save takes {format_size(needed)}, and {format_size(free)} are free on volume {volume}"


def lacks_room(cluster: Cluster, plan: PlanRecord, found: Sequence[dict[str, Any]]) -> str:
    """Why a run can not go on yet; "" once its next save fits.

    Args:
        found: its checkpoints, oldest first; the next is taken to be as large as the newest complete one.
    """
    complete = [checkpoint["bytes"] for checkpoint in found if checkpoint["verdict"] == "complete"]
    free = free_bytes(cluster, plan.volume)
    return shortage(plan.volume, complete[-1], free) if complete and complete[-1] > free else ""
