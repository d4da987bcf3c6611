"""Steps on checkpoints: hold the source of a fork."""

from prefect import get_run_logger, task

from blocks.clusters.port import Cluster
from tasks.errors import hush_expected
from tasks.runs.launch import hold
from tasks.runs.records import PlanRecord

hush_expected()


@task(name="hold source", task_run_name="hold the source of {plan.run}")
def hold_source(cluster: Cluster, plan: PlanRecord) -> None:
    """Keep the checkpoint that a run continues from alive and unchanged; nothing to do for other runs.

    Raises:
        ProgramError: its bytes are no longer those that were chosen.
    """
    held = hold(cluster, plan)
    if held:
        source = plan.resolved.source
        assert source is not None
        get_run_logger().info("%s holds step %d of %s: %s", plan.run, source.step, source.run or source.path, held)
