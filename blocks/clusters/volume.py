"""Named storage that outlives runs, as every cluster describes it."""

from datetime import datetime
from enum import StrEnum

from blocks.clusters.job import Frozen


class VolumeStatus(StrEnum):
    PROVISIONING = "provisioning"
    READY = "ready"
    GROWING = "growing"
    DELETING = "deleting"
    FAILED = "failed"


class Volume(Frozen):
    """One volume.

    Args:
        size: bytes asked for.
        actual_size: bytes that are there; None where the cluster can not tell.
        used_by: the live jobs and people's sessions that mount it, by name.
        reason: while it waits or has failed, why.
        storage_class, access_mode: on Kubernetes.
    """

    name: str
    owner: str
    cluster: str
    size: int
    actual_size: int | None
    status: VolumeStatus
    created_at: datetime
    used_by: tuple[str, ...] = ()
    reason: str = ""
    storage_class: str | None = None
    access_mode: str | None = None

    @property
    def capacity(self) -> int:
        """Bytes that can be counted on."""
        return self.size if self.actual_size is None else self.actual_size
