"""What people see of a run in the Prefect UI: log lines, one progress artifact, one page that is updated in place."""

import time
import uuid
from typing import Any, cast

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_progress_artifact, update_progress_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.events import emit_event

from blocks.clusters.port import Cluster
from blocks.clusters.size import format_size
from tasks.errors import hush_expected
from tasks.reports.curves import Curve, data_uri, draw_curves
from tasks.reports.story import Story, tell
from tasks.runs.follow import Progress
from tasks.runs.launch import Launch

hush_expected()

CHECKPOINT_EVENT = "slipway.checkpoint.completed"
_EVENTS = uuid.UUID("6f1c1c1e-7d0b-4a86-9b8e-2f6f6d0f5a11")
_LOG_EVERY_SECONDS = 2.0


class RunReporter:
    """Shows what `follow` sees."""

    def __init__(self, launched: Launch) -> None:
        self._plan = launched.plan
        self._logger = get_run_logger()
        self._waits_for = self._logged = ""
        self._logged_at = 0.0
        self._bar = cast(uuid.UUID, create_progress_artifact(progress=0.0, description=f"Training {self._plan.run}"))
        self._page: Any = None

    def notice(self, progress: Progress) -> None:
        job = progress.job
        if job is not None and job.live and (waits := f"{job.state}: {job.reason}") != self._waits_for:
            self._waits_for = waits
            self._logger.info("run %s is %s", self._plan.run, waits.rstrip(": "))
        for path in progress.fresh:
            self._checkpoint(next(c for c in progress.checkpoints if c["path"] == path))
        line = _line(progress)
        if line != self._logged and (progress.end or time.monotonic() - self._logged_at > _LOG_EVERY_SECONDS):
            self._logged, self._logged_at = line, time.monotonic()
            self._logger.info("run %s: %s", self._plan.run, line)
            if self._plan.max_steps:
                update_progress_artifact(self._bar, progress=min(100.0, 100 * progress.step / self._plan.max_steps))
        if progress.fresh:
            self._show(progress)

    def finish(self, progress: Progress) -> None:
        assert progress.end is not None
        self._show(progress)
        self._logger.info("run %s ended as %s: %s", self._plan.run, progress.end.state, progress.end.reason)
        emit_event(
            f"slipway.run.{progress.end.state}",
            resource={"prefect.resource.id": f"slipway.run.{self._plan.run}", "slipway.volume": self._plan.volume},
            payload={"run": self._plan.run, "volume": self._plan.volume, "reason": progress.end.reason},
            id=uuid.uuid5(_EVENTS, f"{self._plan.run}/{progress.launch.attempt.attempt}/{progress.end.state}"),
        )

    def _checkpoint(self, checkpoint: dict[str, Any]) -> None:
        run = self._plan.run
        self._logger.info("checkpoint completed: run %s, step %s, %s", run, checkpoint["step"], checkpoint["why"])
        emit_event(
            CHECKPOINT_EVENT,
            resource={"prefect.resource.id": f"slipway.run.{run}", "slipway.volume": self._plan.volume},
            payload={
                "run": run,
                "volume": self._plan.volume,
                "step": checkpoint["step"],
                "path": f"runs/{run}/{checkpoint['path']}",
                "format": checkpoint["format"],
                "bytes": checkpoint["bytes"],
                "fingerprint": checkpoint["fingerprint"],
            },
            id=uuid.uuid5(_EVENTS, f"{run}/{checkpoint['step']}/{checkpoint['fingerprint']}"),
        )

    def _show(self, progress: Progress) -> None:
        rows = [progress.curve[step] for step in sorted(progress.curve)]
        complete = [c["step"] for c in progress.checkpoints if c["verdict"] == "complete"]
        picture = draw_curves([Curve(self._plan.run, rows, complete)])
        text = f"![loss]({data_uri(picture)})\n\n{_line(progress)}\n\n{checkpoint_table(progress.checkpoints)}"
        if self._page is None:
            key = f"{self._plan.run}-training"
            self._page = create_markdown_artifact(key=key, markdown=text, description=f"Training {self._plan.run}")
        else:
            with get_client(sync_client=True) as client:
                client.update_artifact(self._page, ArtifactUpdate(data=text))


@task(name="report", task_run_name="report on {runs}")
def report(cluster: Cluster, volume: str, runs: list[str]) -> None:
    """Show runs side by side: their curves on one axis and what continued from what."""
    stories = [tell(cluster, volume, run) for run in runs]
    picture = draw_curves([s.curve() for s in stories])
    text = f"![loss]({data_uri(picture)})\n\n{story_table(stories)}"
    create_markdown_artifact(key=f"{runs[0]}-report", markdown=text, description="Runs side by side")


def checkpoint_table(checkpoints: list[dict[str, Any]]) -> str:
    head = "| step | verdict | size | evidence |\n|---|---|---|---|\n"
    return head + "\n".join(
        f"| {c['step']} | {c['verdict']} | {format_size(c['bytes'])} | {c['why']} |" for c in checkpoints
    )


def story_table(stories: list[Story]) -> str:
    head = "| run | state | steps | loss | complete steps | continued from |\n|---|---|---|---|---|---|\n"
    rows = []
    for story in stories:
        facts, source = story.facts(), story.record.plan.resolved.source
        origin = f"step {source.step} of {source.run or source.path}" if source else "the base weights"
        loss = f"{facts['first_loss']:.3f} → {facts['last_loss']:.3f}" if facts["last_loss"] is not None else ""
        steps = ", ".join(map(str, story.complete_steps))
        rows.append(
            f"| {story.run} | {facts['state']} | {facts['last_step'] or 0} of {facts['max_steps']} | {loss} "
            f"| {steps} | {origin} |"
        )
    return head + "\n".join(rows)


def _line(progress: Progress) -> str:
    steps = f"step {progress.step}"
    if progress.launch.plan.max_steps:
        steps += f" of {progress.launch.plan.max_steps}"
    loss = progress.curve.get(progress.step, {}).get("loss")
    return f"{steps}, loss {loss:.4f}" if loss is not None else steps
