"""Steps on volumes."""

from prefect import get_run_logger, task

from blocks.clusters.port import Cluster
from blocks.clusters.size import format_size, parse_size
from blocks.clusters.volume import Volume
from tasks.errors import quiet_engine
from tasks.stages.volume import ensure_volume

quiet_engine()


@task(name="provision volume", task_run_name="provision volume {name}")
def provision(cluster: Cluster, name: str, size: int | None = None) -> Volume:
    """Create a volume unless it exists, and wait until it can be used.

    Args:
        size: bytes of a new one; an existing one is left as it is.
    """
    volume, created = ensure_volume(cluster, name, size)
    done = "is created" if created else "is there"
    get_run_logger().info("volume %s %s: %s, on cluster %s", name, done, format_size(volume.size), cluster.name)
    return volume


@task(name="grow volume", task_run_name="grow volume {name}")
def grow(cluster: Cluster, name: str, size: str) -> Volume:
    """Ask for more room, in place."""
    volume = cluster.volumes.grow(name, parse_size(size))
    get_run_logger().info("volume %s has %s now (%s)", name, format_size(volume.size), volume.status)
    return volume


def parse_optional_size(size: str | None) -> int | None:
    return parse_size(size) if size else None
