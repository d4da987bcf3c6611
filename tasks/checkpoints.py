"""Steps on checkpoints: hold the source of a fork."""

from prefect import get_run_logger, task

from blocks.clusters.port import Cluster
from tasks.errors import quiet_engine
from tasks.runs.launch import hold
from tasks.runs.records import PlanRecord, Source

quiet_engine()


def hold_source(cluster: Cluster, plan: PlanRecord) -> None:
    """Keep the checkpoint that a fork continues from alive and unchanged; nothing to do for other runs.

    Raises:
        ProgramError: its bytes are no longer those that were chosen.
    """
    if plan.resolved.source is not None:
        _hold(cluster, plan, plan.resolved.source)


@task(name="hold source", task_run_name="hold step {source.step} for {plan.run}")
def _hold(cluster: Cluster, plan: PlanRecord, source: Source) -> None:
    held, of = hold(cluster, plan), source.run or source.path
    get_run_logger().info("run %s holds step %d of %s, so that it stays: %s", plan.run, source.step, of, held)
