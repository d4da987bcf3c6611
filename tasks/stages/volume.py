"""Makes sure that a volume exists and can be used."""

import time
from collections.abc import Callable

from blocks.clusters.errors import ConflictError, NotFoundError, SlipwayError
from blocks.clusters.port import Cluster
from blocks.clusters.size import DEFAULT_SIZE, parse_size
from blocks.clusters.volume import Volume, VolumeStatus

_PATIENCE_SECONDS = 600


def usable_volumes(cluster: Cluster) -> list[str]:
    """The names of the volumes that can be looked at."""
    able = (VolumeStatus.READY, VolumeStatus.GROWING)
    return [volume.name for volume in cluster.volumes.list() if volume.status in able]


def ensure_volume(
    cluster: Cluster, name: str, size: int | None, *, sleep: Callable[[float], None] = time.sleep
) -> tuple[Volume, bool]:
    """Create a volume unless it exists, wait until it can be used, and say whether this call created it.

    Args:
        size: bytes of a new one; None for the default. An existing one is left as it is.

    Raises:
        SlipwayError: it failed, or was not ready in time; the message has its reason.
    """
    created = False
    try:
        volume = cluster.volumes.get(name)
    except NotFoundError:
        try:
            volume, created = cluster.volumes.create(name, size or parse_size(DEFAULT_SIZE)), True
        except ConflictError:  # somebody else was quicker
            volume = cluster.volumes.get(name)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while volume.status not in (VolumeStatus.READY, VolumeStatus.GROWING):
        failed = volume.status in (VolumeStatus.FAILED, VolumeStatus.DELETING)
        if failed or time.monotonic() > deadline:
            raise SlipwayError(
                f"Volume {name} is {volume.status}: {volume.reason or 'no reason given'}.",
                "Mend what the reason names, or use another volume.",
            )
        sleep(cluster.poll_seconds)
        volume = cluster.volumes.get(name)
    return volume, created
