"""Steps on checkpoints: hold the source of a fork, wait for one to be completed."""

from prefect import get_run_logger, task

from blocks.clusters.port import Cluster
from tasks.errors import quiet_engine
from tasks.runs.launch import hold
from tasks.runs.records import PlanRecord, Source
from tasks.runs.wait import Completed, wait_for_checkpoint

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


@task(name="wait for checkpoint", task_run_name="wait for step {step} of {run}")
def await_checkpoint(
    cluster: Cluster, volume: str, run: str, step: int, timeout_seconds: float | None = None
) -> Completed:
    """Wait until a run has a completed checkpoint at or above a step.

    Raises:
        NoCheckpointError: the run ended, or the time was over, without it.
    """
    found = wait_for_checkpoint(cluster, volume, run, step, timeout_seconds=timeout_seconds)
    get_run_logger().info("run %s has completed step %d: %s", run, found.step, found.path)
    return found
