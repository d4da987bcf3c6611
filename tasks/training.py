"""Steps of a run: launch it, and follow it to its end."""

from collections.abc import Sequence

from prefect import get_run_logger, task
from pydantic import BaseModel, ConfigDict

from blocks.clusters.errors import SlipwayError
from blocks.clusters.port import Cluster
from tasks.errors import quiet_engine
from tasks.reporting import RunReporter
from tasks.reports.markdown import origin
from tasks.retries import automatic_retry
from tasks.runs.follow import Progress, follow
from tasks.runs.held import is_held
from tasks.runs.launch import Launch, launch
from tasks.runs.records import End, PlanRecord

quiet_engine()


class RunResult(BaseModel):
    """What came of a run.

    Args:
        step: the last one trained.
        loss: of that step; None where the trainer reports none.
        latest_complete: path of the newest complete checkpoint, relative to the volume; None if there is none.
    """

    model_config = ConfigDict(frozen=True)

    run: str
    volume: str
    attempt: int
    state: str
    step: int
    loss: float | None
    latest_complete: str | None

    @classmethod
    def of_launch(cls, launched: Launch) -> "RunResult":
        """A run that nobody waits for."""
        plan, attempt = launched.plan, launched.attempt
        return cls(
            run=plan.run,
            volume=plan.volume,
            attempt=attempt.attempt,
            state=attempt.end.state if attempt.end else "queued",
            step=attempt.resume.step,
            loss=None,
            latest_complete=attempt.resume.path,
        )


class RunFailedError(SlipwayError):
    """A run that ended otherwise than completed.

    Args:
        begun: it has a complete checkpoint to go on from.
    """

    def __init__(self, run: str, end: End, *, begun: bool) -> None:
        tail = "".join(f"\n  {line}" for line in end.last_lines[-8:])
        again = "continues from its newest complete checkpoint" if begun else "begins it again: it has no checkpoint"
        super().__init__(
            f"Run {run} ended as {end.state}: {end.reason.rstrip('.')}.{f' Its last lines:{tail}' if tail else ''}",
            f"Asking for it again ({run}) {again}.",
        )
        self.end = end


@task(name="launch", task_run_name="launch {plan.run}")
def launch_run(cluster: Cluster, plan: PlanRecord, trust: Sequence[str] = ()) -> Launch:
    """Start the next attempt of a run, adopt the live one, or take the last one if the run is over."""
    started = launch(cluster, plan, automatic=automatic_retry(), trust=trust)
    logger, attempt = get_run_logger(), started.attempt
    if is_held(attempt):
        assert attempt.end is not None
        logger.warning("run %s is held until there is room: %s", plan.run, attempt.end.reason)
    elif attempt.end is not None:
        logger.info("run %s is over (%s): reused, nothing was launched", plan.run, attempt.end.state)
    elif started.adopted:
        logger.info("run %s is live already: adopted attempt %d, nothing was launched", plan.run, attempt.attempt)
    else:
        start = origin(plan, attempt.resume)
        logger.info("run %s: launched attempt %d, which starts from %s", plan.run, attempt.attempt, start)
    for torn in attempt.set_aside:
        logger.warning("run %s: set aside %s: %s", plan.run, torn["path"], torn["why"])
    return started


@task(name="follow", task_run_name="follow {launched.plan.run}")
def follow_run(cluster: Cluster, launched: Launch) -> RunResult:
    """Follow a run to its end, reporting every completed checkpoint as it appears.

    Raises:
        RunFailedError: it ended otherwise than completed; says why.
    """
    reporter = RunReporter(cluster, launched)
    (progress,) = follow(cluster, [launched], reporter.notice)
    reporter.finish(progress)
    result = result_of(progress)
    if result.state != "completed":
        assert progress.end is not None
        raise RunFailedError(result.run, progress.end, begun=result.latest_complete is not None)
    return result


def result_of(progress: Progress) -> RunResult:
    plan = progress.launch.plan
    complete = [c["path"] for c in progress.checkpoints if c["verdict"] == "complete"]
    loss = progress.curve.get(progress.step, {}).get("loss")
    return RunResult(
        run=plan.run,
        volume=plan.volume,
        attempt=progress.launch.attempt.attempt,
        state=progress.end.state if progress.end else "running",
        step=progress.step,
        loss=loss,
        latest_complete=f"runs/{plan.run}/{complete[-1]}" if complete else None,
    )
