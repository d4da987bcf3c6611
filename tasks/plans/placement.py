"""Whether weights can be read where a run asked to read them: sized before anything starts."""

from collections.abc import Callable

from blocks.clusters.port import Cluster
from blocks.clusters.size import format_size
from tasks.plans.plan import Blocked, Mark
from tasks.runs.records import Weights
from tasks.runs.request import WeightsRequest


def check_placement(cluster: Cluster, asked: WeightsRequest, weights: Weights | None, add: Callable[..., None]) -> None:
    """One line of the plan, for weights that are copied to the node.

    Raises:
        Blocked: there is no room, and no fallback was asked for.
    """
    if asked.placement == "volume" or weights is None:
        return
    needed, there = weights.bytes or 0, cluster.capacity()
    if asked.placement == "hydrate":
        free, where = there.scratch_free_bytes, "scratch has {} free"
        done = f"{format_size(needed)} are copied to scratch before training starts"
    else:
        free, where = there.node_cache_bytes or 0, "the node cache is limited to {}"
        done = f"{format_size(needed)} are read from the node's cache, and copied there first where it has them not"
    if free is None or needed <= free:
        unknown = "; what is free there is only known on the node" if free is None else ""
        add(Mark.READY, "weights", f"{done}{unknown}")
        return
    why = f"{format_size(needed)} are to be copied, and {where.format(format_size(free))}"
    if not there.node_cache_bytes and asked.placement == "node":
        why = f"cluster {cluster.name} has no node cache"
    if asked.fallback:
        add(Mark.WARNING, "weights", f"{why}; they are read in place, as was asked for this case")
        return
    raise Blocked("weights", f"{why}.", "Make room, read them in place, or ask for that as a fallback.")
