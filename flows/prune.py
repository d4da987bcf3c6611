"""Prune: say what nobody needs, then take it away."""

from typing import cast

from prefect import flow

from blocks.cluster import ClusterBlock
from flows.naming import flow_run_label
from flows.parameters import AnyRun, Count, Volume
from flows.slots import skipped, this_flow_run
from tasks.retention import plan_retention, prune_volume
from tasks.runs.prune import PruneReport, PruneRequest


@flow(name="prune", flow_run_name=flow_run_label)
def prune(
    *,
    volume: Volume,
    keep_last: Count = 0,
    keep_every: Count = 0,
    run: AnyRun = "",
    unreferenced: bool = False,
    dry_run: bool = False,
    cluster: ClusterBlock,
) -> PruneReport:
    """Take away checkpoints that nobody needs. A run's newest complete one stays, and so does what a fork holds.

    Args:
        volume: The storage to make room on, such as "research".
        keep_last: How many of the newest complete checkpoints to keep of each run that has no policy of its own. 0: no
            such rule; with both rules 0, runs without a policy keep everything.
        keep_every: Keep the checkpoints at multiples of so many steps as well. 0: no such rule.
        run: Only this run; the two numbers above then beat its own policy. Left empty, all runs.
        unreferenced: Also take away models and datasets that no run refers to. They are reported either way.
        dry_run: On: only show what would go.
        cluster: Where the volume is.
    """
    if (left_out := skipped(this_flow_run(), "latest", "skip")) is not None:
        return cast(PruneReport, left_out)  # a schedule's, which nobody waits for
    place = cluster.connect()
    request = PruneRequest(
        volume=volume,
        run=run or None,
        keep_last=keep_last or None,
        keep_every=keep_every or None,
        unreferenced=unreferenced,
    )
    planned = plan_retention(place, request)
    return planned if dry_run else prune_volume(place, request)
