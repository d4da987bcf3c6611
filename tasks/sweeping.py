"""Steps of a sweep: plan it, stage once, write the plan down, drive it to its end, report."""

import time
import uuid
from typing import Any, cast

from prefect import get_run_logger, task
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from pydantic import BaseModel, ConfigDict

from blocks.clusters.errors import SlipwayError
from blocks.clusters.port import Cluster
from blocks.hub_access import HubAccess
from tasks.errors import quiet_engine
from tasks.events import announce_checkpoint, announce_end, announce_sweep
from tasks.plans.plan import Mark
from tasks.reports.sweep_board import Board, Now, board
from tasks.reports.sweep_page import board_page, drawn, read_curves, report_page
from tasks.runs.follow import Progress
from tasks.staging import stage_inputs
from tasks.sweeps.claim import SweepPlanError, claim_sweep
from tasks.sweeps.drive import Drive
from tasks.sweeps.log import Closing, End, Entry, Interval, Start, Stop
from tasks.sweeps.outcome import value_of
from tasks.sweeps.plan import SweepPlan, make_sweep_plan, show_value
from tasks.sweeps.records import SweepRecord, read_sweep
from tasks.sweeps.spec import SweepRequest

quiet_engine()

_SHOWN_EVERY_SECONDS = 5.0


class SweepResult(BaseModel):
    """What came of a sweep.

    Args:
        trials: how many were begun.
        runs: of all of them, forks included.
        best: the run with the best value; None where none completed.
        gpu_hours: of all runs.
    """

    model_config = ConfigDict(frozen=True)

    sweep: str
    volume: str
    state: str
    trials: int
    runs: int
    failed: int
    best: str | None
    value: float | None
    point: dict[str, Any]
    gpu_hours: float


class SweepFailedError(SlipwayError):
    """A sweep of which no trial completed."""


@task(name="plan sweep", task_run_name="plan sweep {request.sweep}")
def plan_sweep(cluster: Cluster, hub: HubAccess, request: SweepRequest) -> SweepPlan:
    """Work out what a sweep would do, show it, and stop what can not work.

    Raises:
        SweepPlanError: something stands in the way; nothing was launched.
    """
    plan = make_sweep_plan(cluster, hub, request)
    logger = get_run_logger()
    for item in plan.items:
        level = logger.info if item.mark in (Mark.READY, Mark.TO_DO) else logger.warning
        level("plan: %s: %s: %s", item.mark, item.subject, f"{item.detail} {item.remedy}".strip())
    logger.info("plan of sweep %s: %s", request.sweep, plan.conclusion)
    create_markdown_artifact(key=f"{request.sweep}-plan", markdown=plan.markdown(), description=plan.conclusion)
    if plan.blocked:
        raise SweepPlanError(plan)
    return plan


def stage_for_sweep(cluster: Cluster, hub: HubAccess, plan: SweepPlan) -> SweepRecord:
    """Have on the volume what the trials read, once, and write the sweep's plan down."""
    staged = [stage_inputs(cluster, hub, run) for run in plan.runs]
    return _record(cluster, plan, staged)


@task(name="write down the plan", task_run_name="write down the plan of {plan.request.sweep}")
def _record(cluster: Cluster, plan: SweepPlan, staged: Any) -> SweepRecord:
    return claim_sweep(cluster, plan, staged)


@task(name="search", task_run_name="search {record.sweep}")
def drive_sweep(cluster: Cluster, record: SweepRecord) -> None:
    """Drive a sweep to its end: launch trials, follow all of them, fork those that do well."""
    reporter = _Reporter(record)
    Drive(cluster, record, reporter.notice).to_its_end()


@task(name="report", task_run_name="report on {record.sweep}")
def report_sweep(cluster: Cluster, record: SweepRecord) -> SweepResult:
    """Show what a sweep has found: leaderboard, curves, what mattered, lineage.

    Raises:
        SweepFailedError: no trial completed; says why the first ones failed.
    """
    found = board(*read_sweep(cluster, record.volume, record.sweep))
    curves = read_curves(cluster, record, drawn(found))
    sweep, text = record.sweep, found.conclusion
    create_table_artifact(key=f"{sweep}-leaderboard", table=found.table(), description=text)
    create_markdown_artifact(key=f"{sweep}-report", markdown=report_page(found, curves), description=text)
    best = found.best
    planned = record.created_at.isoformat()
    announce_sweep(record.volume, sweep, planned, best.run if best else None, best.value if best else None)
    get_run_logger().info("sweep %s is %s", sweep, text)
    if best is None:
        reasons = dict.fromkeys(row.reason for row in found.rows if row.state in ("failed", "stopped"))
        why = "; ".join(reasons) or "none was begun"
        raise SweepFailedError(
            f"Sweep {sweep} has no completed trial: {why[:1000]}", "Begin it anew under another name."
        )
    return SweepResult(
        sweep=sweep,
        volume=record.volume,
        state="completed",
        trials=found.state.trials,
        runs=len(found.rows),
        failed=found.state.failed,
        best=best.run,
        value=best.value,
        point=best.point,
        gpu_hours=found.gpu_hours,
    )


def _waits(progress: Progress) -> str:
    """What a trial's job waits for; "" for one that trains."""
    job = progress.job
    return job.reason or "its job is submitted" if job is not None and job.live and job.started_at is None else ""


class _Reporter:
    """Shows what a drive does: a line for each run that begins or ends, one progress artifact, one page."""

    def __init__(self, record: SweepRecord) -> None:
        self._record, self._logger = record, get_run_logger()
        self._shown_at = -_SHOWN_EVERY_SECONDS
        self._bar: uuid.UUID | None = None
        self._page: uuid.UUID | None = None

    def notice(self, drive: Drive) -> None:
        for entry in drive.written:
            self._say(entry)
        for warning in drive.warnings:
            self._logger.warning(warning)
        for progress in drive.seen:
            for checkpoint in progress.checkpoints:
                if checkpoint["path"] in progress.fresh:
                    announce_checkpoint(progress.launch.plan, checkpoint)
            if progress.end is not None and progress.launch.attempt.attempt:
                announce_end(progress.launch, progress.end, progress.step)
        if drive.state.over or time.monotonic() - self._shown_at > _SHOWN_EVERY_SECONDS:
            self._shown_at = time.monotonic()
            self._show(self._board(drive))

    def _say(self, entry: Entry) -> None:
        metric = self._record.request.search.metric
        match entry:
            case Start():
                point = ", ".join(f"{key} {show_value(value)}" for key, value in entry.point.items())
                come = f" from step {entry.origin.step} of {entry.origin.run} ({entry.why})" if entry.origin else ""
                self._logger.info("%s: begun%s: %s", entry.run, come, point)
            case Stop():
                self._logger.info("%s: to be stopped: %s", entry.run, entry.reason)
            case End() if entry.state == "failed":
                self._logger.warning("%s: failed at step %d: %s", entry.run, entry.step, entry.reason or entry.cause)
            case End():
                why = f" ({entry.reason})" if entry.state == "stopped" else ""
                self._logger.info("%s: %s, %s %s%s", entry.run, entry.state, metric, show_value(entry.value), why)
            case Interval():
                self._logger.info("interval %d: the population is compared", entry.number)
            case Closing():
                self._logger.warning("nothing new begins: %s", entry.reason)

    def _board(self, drive: Drive) -> Board:
        search = self._record.request.search
        now = {run: Now(value_of(search, p.curve), p.step, _waits(p)) for run, p in drive.watched.items()}
        return board(self._record, drive.state, now)

    def _show(self, found: Board) -> None:
        sweep, text = self._record.sweep, found.conclusion
        over = sum(1 for row in found.rows if row.state not in ("running", "queued"))
        planned = max(len(found.rows), self._record.request.search.planned)
        share = 100.0 if found.state.over else min(99.0, 100 * over / planned)
        if self._bar is None or self._page is None:
            bar = create_progress_artifact(progress=share, key=f"{sweep}-progress", description=text)
            page = create_markdown_artifact(key=f"{sweep}-board", markdown=board_page(found), description=text)
            self._bar, self._page = cast(uuid.UUID, bar), cast(uuid.UUID, page)
        else:
            update_progress_artifact(self._bar, progress=share, description=text)
            with get_client(sync_client=True) as client:
                client.update_artifact(self._page, ArtifactUpdate(data=board_page(found), description=text))
