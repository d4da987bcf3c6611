"""What people see of a run in the Prefect UI: log lines, one progress artifact, one page that is updated in place."""

import time
import uuid
from typing import cast

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_progress_artifact, update_progress_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate

from blocks.clusters.port import Cluster
from blocks.clusters.size import format_size
from tasks.errors import quiet_engine
from tasks.events import announce_checkpoint, announce_end
from tasks.lineage import LineagePage
from tasks.reports.markdown import how_far, report_page, state_of, training_page
from tasks.reports.story import tell
from tasks.runs.follow import Progress
from tasks.runs.held import is_held
from tasks.runs.launch import Launch

quiet_engine()

_LOG_EVERY_SECONDS = 2.0


class RunReporter:
    """Shows what `follow` sees."""

    def __init__(self, cluster: Cluster, launched: Launch) -> None:
        self._plan = launched.plan
        self._lineage = LineagePage(cluster, launched.plan)
        self._over = launched.attempt.end is not None and not is_held(launched.attempt)
        self._logger = get_run_logger()
        self._state = self._logged = ""
        self._logged_at = 0.0
        self._waits: list[str] = []
        self._bar: uuid.UUID | None = None
        self._page: uuid.UUID | None = None

    def notice(self, progress: Progress) -> None:
        changed = self._notice_state(progress)
        if progress.fresh:
            self._notice_checkpoints(progress)
        for warning in progress.warnings:
            self._logger.warning("run %s: %s", self._plan.run, warning)
        if progress.curve and progress.end is None:
            self._notice_step(progress)
        if changed or progress.fresh or progress.warnings:
            self._show_page(progress)

    def finish(self, progress: Progress) -> None:
        assert progress.end is not None
        run, end = self._plan.run, progress.end
        self._show_progress(progress)
        self._lineage.show()
        self._show_page(progress)
        if end.state != "completed":
            self._logger.error("run %s %s at %s: %s", run, end.state, how_far(progress), end.reason)
        elif self._over:
            self._logger.info("run %s had completed before and is reused: %s", run, how_far(progress))
        else:
            self._logger.info("run %s completed: %s", run, how_far(progress))
            if not any(c["verdict"] == "complete" for c in progress.checkpoints):
                text = "run %s left no complete checkpoint: it can be neither forked nor exported"
                self._logger.warning(text, run)
        announce_end(progress.launch, end, progress.step)

    def _notice_state(self, progress: Progress) -> bool:
        job, state = progress.job, state_of(progress)
        if progress.end is not None:  # held: the warning says so
            self._state = ""
            return False
        if job is None or not job.live or state == self._state:
            return False
        self._state = state
        self._logger.info("run %s is %s", self._plan.run, state)
        if job.reason and job.reason not in self._waits:
            self._waits.append(job.reason)
        return True

    def _notice_step(self, progress: Progress) -> None:
        line = how_far(progress)
        if line != self._logged and time.monotonic() - self._logged_at > _LOG_EVERY_SECONDS:
            self._logged, self._logged_at = line, time.monotonic()
            self._logger.info("run %s: %s", self._plan.run, line)
            self._show_progress(progress)

    def _notice_checkpoints(self, progress: Progress) -> None:
        fresh = [c for c in progress.checkpoints if c["path"] in progress.fresh]
        steps = ", ".join(str(c["step"]) for c in fresh)
        what = f"checkpoint of step {steps} is" if len(fresh) == 1 else f"checkpoints of steps {steps} are"
        self._logger.info("run %s: %s complete (%s)", self._plan.run, what, format_size(fresh[-1]["bytes"]))
        for checkpoint in fresh:
            announce_checkpoint(self._plan, checkpoint)

    def _show_progress(self, progress: Progress) -> None:
        if not self._plan.max_steps:
            return
        share = min(100.0, 100 * progress.step / self._plan.max_steps)
        if self._bar is None:
            key = f"{self._plan.run}-progress"
            bar = create_progress_artifact(progress=share, key=key, description=how_far(progress))
            self._bar = cast(uuid.UUID, bar)
        else:
            update_progress_artifact(self._bar, progress=share, description=how_far(progress))

    def _show_page(self, progress: Progress) -> None:
        if not self._lineage.key:
            self._lineage.show()
        page = training_page(progress, self._waits, lineage=self._lineage.key, paged=self._lineage.paged)
        text = f"{state_of(progress)}, {how_far(progress)}"
        if self._page is None:
            key = f"{self._plan.run}-training"
            self._page = cast(uuid.UUID, create_markdown_artifact(key=key, markdown=page, description=text))
        else:
            with get_client(sync_client=True) as client:
                client.update_artifact(self._page, ArtifactUpdate(data=page, description=text))


@task(name="report", task_run_name="report on {runs[0]}")
def report(cluster: Cluster, volume: str, runs: list[str]) -> None:
    """Show runs side by side: their curves on one axis and what continued from what."""
    page = report_page([tell(cluster, volume, run) for run in runs])
    text = f"Side by side: {', '.join(runs)}"
    create_markdown_artifact(key=f"{runs[0]}-report", markdown=page, description=text)
