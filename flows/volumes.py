"""Volumes: create, grow. Deleting one is done by a person on the command line only."""

from prefect import flow

from blocks.local_cluster import LocalCluster
from flows.naming import flow_run_label
from flows.parameters import Name, Size
from tasks.volumes import grow, parse_optional_size, provision


@flow(name="create-volume", flow_run_name=flow_run_label)
def create_volume(cluster: LocalCluster, volume: Name, size: Size | None = None) -> None:
    """Create a volume, or find that it is there.

    Args:
        cluster: Where.
        volume: Its name: lower-case letters, digits and hyphens.
        size: Such as 500Gi or 2Ti; 1Ti if empty, 10Ti at most. An existing volume is left as it is.
    """
    provision(cluster.connect(), volume, parse_optional_size(size))


@flow(name="grow-volume", flow_run_name=flow_run_label)
def grow_volume(cluster: LocalCluster, volume: Name, size: Size) -> None:
    """Grow a volume in place. A volume never shrinks.

    Args:
        cluster: Where.
        volume: Its name.
        size: The new size, larger than now, 10Ti at most.
    """
    grow(cluster.connect(), volume, size)
