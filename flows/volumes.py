"""Volumes: create, grow. Deleting one is done by a person on the command line only."""

from prefect import flow

from blocks.cluster import ClusterBlock
from flows.naming import flow_run_label
from flows.parameters import Size, SizeOrDefault, Volume
from tasks.volumes import grow, parse_optional_size, provision


@flow(name="create-volume", flow_run_name=flow_run_label)
def create_volume(*, volume: Volume, size: SizeOrDefault = "", cluster: ClusterBlock) -> None:
    """Create a volume, or find that it is there.

    Args:
        volume: What it is called, such as "research": lower-case letters, digits and hyphens, 63 at most.
        size: Such as 500Gi or 2Ti, 10Ti at most. An existing volume is left as it is. Where none is given, 1Ti.
        cluster: Where to create it.
    """
    provision(cluster.connect(), volume, parse_optional_size(size))


@flow(name="grow-volume", flow_run_name=flow_run_label)
def grow_volume(*, volume: Volume, size: Size, cluster: ClusterBlock) -> None:
    """Grow a volume in place. A volume never shrinks.

    Args:
        volume: Which volume.
        size: The new size, such as 2Ti: larger than it is now, 10Ti at most. Runs that use the volume go on.
        cluster: Where it is.
    """
    grow(cluster.connect(), volume, size)
