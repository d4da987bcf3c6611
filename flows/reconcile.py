"""Reconcile: what lost its flow, worker and process alike, is found and followed to its end."""

from datetime import timedelta
from typing import Annotated, cast

from prefect import flow, get_run_logger
from prefect.futures import wait
from pydantic import Field

from blocks.cluster import ClusterBlock
from flows.naming import flow_run_label
from flows.parameters import VolumeOrConfigs
from flows.slots import skipped, this_flow_run
from tasks.errors import EXPECTED
from tasks.flow_runs import SHORTEST_SILENCE
from tasks.reconciling import end_dead_flow_runs, find_orphans, follow_orphans, show_found
from tasks.stages.volume import usable_volumes
from tasks.sweeping import drive_sweep, report_sweep

Minutes = Annotated[int, Field(ge=0)]


@flow(name="reconcile", flow_run_name=flow_run_label)
def reconcile(*, volume: VolumeOrConfigs = "", idle_minutes: Minutes = 10, cluster: ClusterBlock) -> dict[str, str]:
    """Take up runs and sweeps whose flow died: follow what lives, write down how others ended, begin lost ones again.

    Args:
        volume: Only this volume. Left empty, all of them.
        idle_minutes: How long nobody has followed them. A flow that lives says every minute that it does.
        cluster: Where the volumes are and the jobs run.
    """
    # beside an earlier one that still runs: that may follow a run for days, and others are lost meanwhile
    if (left_out := skipped(this_flow_run(), "latest", "run")) is not None:
        return cast(dict[str, str], left_out)  # a schedule's, which nobody waits for
    place = cluster.connect()
    idle = timedelta(minutes=idle_minutes)
    dead = end_dead_flow_runs(max(idle, SHORTEST_SILENCE))
    found = [find_orphans(place, name, idle) for name in ([volume] if volume else usable_volumes(place))]
    show_found(found, dead)
    sweeps = [sweep for orphans in found for sweep in orphans.sweeps]
    # one follower a volume, and one a sweep: a long one must not keep the others waiting
    following = [follow_orphans.submit(place, o.volume, o.runs) for o in found if o.runs]
    driving = [drive_sweep.submit(place, sweep) for sweep in sweeps]
    wait(following)
    wait(driving)
    became = {run: state for future in following for run, state in future.result().items()}
    for sweep, future in zip(sweeps, driving, strict=True):
        future.result()
        try:
            became[sweep.sweep] = report_sweep(place, sweep).state
        except EXPECTED as error:  # no trial of it completed
            get_run_logger().error("sweep %s: %s", sweep.sweep, error)
            became[sweep.sweep] = "failed"
    return became
