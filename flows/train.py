"""The recipe that every run follows, whichever flow asks for it."""

from blocks.clusters.port import Cluster
from blocks.hub_access import HubAccess
from tasks.checkpoints import hold_source
from tasks.planning import plan_run, record_plan
from tasks.runs.request import RunRequest
from tasks.staging import stage_inputs
from tasks.training import RunResult, follow_run, launch_run
from tasks.volumes import provision


def train(cluster: Cluster, hub: HubAccess, request: RunRequest, *, wait: bool = True) -> RunResult:
    """Plan a run, have what it needs on the volume, launch it or adopt it, and follow it to its end.

    Args:
        wait: False to return as soon as its job is submitted.
    """
    plan = plan_run(cluster, hub, request)
    provision(cluster, request.volume, request.volume_size)
    weights, dataset = stage_inputs(cluster, hub, plan)
    record = record_plan(cluster, plan, weights, dataset)
    hold_source(cluster, record)
    launched = launch_run(cluster, record, request.trust)
    return follow_run(cluster, launched) if wait else RunResult.of_launch(launched)
