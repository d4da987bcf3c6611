"""Connects to the cluster that a command is about, and finds the volume of a run."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blocks.clusters.port import Cluster


def connect(cluster: str | None, owner: str | None) -> "Cluster":
    """Raises: UsageError: malformed settings, or no such cluster."""
    from blocks.settings import read_settings

    return read_settings().cluster(cluster, owner)


def usable_volumes(cluster: "Cluster") -> list[str]:
    from tasks.stages.volume import usable_volumes as usable

    return usable(cluster)


def volume_of(cluster: "Cluster", run: str, volume: str | None) -> str:
    """The volume that was named, else the only one that has the run.

    Raises:
        UsageError: `run` can not be a run's name.
        NotFoundError: no volume has it; names the nearest run.
        ConflictError: several have it.
    """
    from blocks.clusters.errors import ConflictError, NotFoundError
    from blocks.clusters.names import check_name, meant

    check_name("run", run)
    if volume:
        check_name("volume", volume)
        return volume
    runs = {name: _runs(cluster, name) for name in usable_volumes(cluster)}
    found = [name for name, there in runs.items() if run in there]
    if len(found) > 1:
        raise ConflictError(f"The volumes {' and '.join(found)} each have a run {run!r}.", "Say which with --volume.")
    if found:
        return found[0]
    raise NotFoundError(
        f"No volume of {cluster.owner!r} on cluster {cluster.name!r} has a run {run!r}.",
        meant(run, {name for there in runs.values() for name in there}, "Runs"),
    )


def _runs(cluster: "Cluster", volume: str) -> list[str]:
    answer = cluster.call(volume, "runs.list", {})
    return [*(record["run"] for record in answer["runs"]), *answer["damaged"]]
