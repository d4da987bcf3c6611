"""Steps that stage: one job per snapshot or dataset version, a no-op where it is staged."""

import re
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from httpx import HTTPError
from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_progress_artifact, update_progress_artifact

from blocks.clusters.port import Cluster
from blocks.clusters.size import format_size
from blocks.hub_access import HubAccess
from tasks.choices import offer_models
from tasks.errors import quiet_engine
from tasks.events import announce_staged
from tasks.plans.content import describe
from tasks.plans.plan import Plan
from tasks.plans.staged import refuse_misfit
from tasks.runs.records import Dataset, Weights
from tasks.stages.resolve import SnapshotToStage, resolve
from tasks.stages.source import DatasetRequest, HubRef, WeightsToStage
from tasks.stages.staged import stage_dataset, stage_snapshot, stage_weights, verify_snapshot

quiet_engine()


@task(name="resolve snapshot", task_run_name="resolve {ref.repo}@{ref.revision}")
def resolve_snapshot(cluster: Cluster, hub: HubAccess, volume: str, ref: HubRef) -> SnapshotToStage:
    """Turn a revision into a commit, once, and find out whether we may have its files."""
    snapshot = resolve(cluster, hub, volume, ref)
    get_run_logger().info(
        "%s@%s is commit %s: %d files, %s", ref.repo, ref.revision, snapshot.commit, snapshot.files,
        format_size(snapshot.bytes),
    )  # fmt: skip
    return snapshot


@task(name="stage snapshot", task_run_name="stage {snapshot.ref.repo}")
def stage_model(cluster: Cluster, hub: HubAccess, volume: str, snapshot: SnapshotToStage) -> Weights:
    """Have a resolved snapshot on the volume, every byte verified."""
    reporter = StagingReporter(f"model {snapshot.ref.repo}")
    weights = stage_snapshot(cluster, hub, volume, snapshot, reporter)
    part = ", in part" if snapshot.ref.allow or snapshot.ref.ignore else ""
    state = "was staged already" if snapshot.staged else f"is staged{part}, every byte verified"
    reporter.finish(f"model {snapshot.ref.repo} at commit {snapshot.commit[:12]} {state}: {weights.path}")
    announce_staged(volume, "model", snapshot.ref.repo, snapshot.commit, weights.path)
    _offer(f"{snapshot.ref.repo}@{snapshot.commit}")
    return weights


@task(name="verify snapshot", task_run_name="verify {snapshot.ref.repo}")
def verify_model(cluster: Cluster, hub: HubAccess, volume: str, snapshot: SnapshotToStage) -> list[dict[str, Any]]:
    """Read every byte of a staged snapshot again, and replace what is bad: what was bad."""
    reporter = StagingReporter(f"model {snapshot.ref.repo}")
    found = verify_snapshot(cluster, hub, volume, snapshot, reporter)
    for bad in found["bad"]:
        get_run_logger().warning("%s %s: fetched again and replaced", bad["path"], bad["why"])
    what = f"model {snapshot.ref.repo} at commit {snapshot.commit[:12]}"
    verdict = f"{len(found['bad'])} bad, replaced" if found["bad"] else "all as staged"
    reporter.finish(f"{what}: {found['files']} files, {format_size(found['bytes'])} read again, {verdict}")
    bad_files: list[dict[str, Any]] = found["bad"]
    return bad_files


@task(name="stage weights", task_run_name="stage weights {asked.name}")
def stage_own_weights(cluster: Cluster, volume: str, asked: WeightsToStage) -> Weights:
    """Have weights of a folder or a bucket on the volume, proven complete."""
    reporter = StagingReporter(f"weights {asked.name}")
    weights = stage_weights(cluster, volume, asked, reporter)
    reporter.finish(f"weights {asked.name} are staged, complete: {weights.path}")
    announce_staged(volume, "weights", asked.name, "", weights.path)
    _offer(f"/volume/{weights.path}")
    return weights


@task(name="stage dataset", task_run_name="stage dataset {asked.name}")
def stage_data(cluster: Cluster, hub: HubAccess, volume: str, asked: DatasetRequest) -> Dataset:
    """Have a dataset version on the volume."""
    reporter = StagingReporter(f"dataset {asked.name}")
    dataset = stage_dataset(cluster, hub, volume, asked, reporter)
    reporter.finish(f"dataset {asked.name} version {dataset.version} is staged: {dataset.path}")
    _tell_content(cluster, volume, dataset)
    announce_staged(volume, "dataset", asked.name, dataset.version or "", dataset.path)
    return dataset


def _offer(model: str) -> None:
    """Add it to the choices of the Run forms: no reason to fail where that can not be."""
    try:
        offer_models([model])
    except HTTPError as error:
        get_run_logger().warning("the Run forms do not offer %s yet (`slipway register` mends that): %s", model, error)


def _tell_content(cluster: Cluster, volume: str, dataset: Dataset) -> None:
    """Say what is in it, and what is wrong with it, before anybody trains on it."""
    asked = {"name": dataset.name, "version": dataset.version}
    if (content := cluster.call(volume, "datasets.state", asked)["content"]) is None:
        return
    logger = get_run_logger()
    logger.info("dataset %s has %s", dataset.name, describe(content))
    for problem in content["problems"]:
        logger.warning("dataset %s: %s", dataset.name, problem)


def stage_inputs(cluster: Cluster, hub: HubAccess, plan: Plan) -> tuple[Weights, Dataset | None]:
    """Have on the volume what a planned run reads, and return where it lies."""
    resolved, request = plan.resolved, plan.request
    assert resolved is not None
    weights, dataset = resolved.weights, resolved.dataset
    if plan.snapshot is not None:
        weights = stage_model(cluster, hub, request.volume, plan.snapshot)
    if dataset is None and request.dataset is not None and plan.record is None:
        dataset = stage_data(cluster, hub, request.volume, request.dataset)
        refuse_misfit(cluster, plan, dataset)
    return weights, dataset


def show_staged(volume: str, found: Sequence[Weights | Dataset]) -> None:
    """Show what lies on the volume now, and how a config names it."""
    text = f"### On volume `{volume}`\n\n| what | version | size | in a config |\n|---|---|---|---|\n"
    text += "\n".join(f"| {' | '.join(_cells(one))} |" for one in found)
    paths = "\n".join(one.path for one in found)  # long ones, in a box of their own that scrolls
    text += f"\n\n### Where\n\n```text\n{paths}\n```"
    names = ", ".join(one.name or one.path if isinstance(one, Dataset) else one.repo or one.path for one in found)
    create_markdown_artifact(key=f"{volume}-staged", markdown=text, description=f"{names} on volume {volume}")


def _cells(one: Weights | Dataset) -> tuple[str, ...]:
    if isinstance(one, Dataset):
        name = one.name or one.path.split("/")[1]
        return f"dataset {name}", one.version or "", "", f"`datasets/{name}`"
    size = format_size(one.bytes) if one.bytes else ""
    named = one.repo or f"/volume/{one.path}"
    return f"weights {one.repo or one.path}", (one.commit or "")[:12], size, f"`{named}`"


class StagingReporter:
    """Shows the notes of a staging job as log lines and as one progress artifact that moves."""

    def __init__(self, what: str) -> None:
        self._what, self._logger = what, get_run_logger()
        self._share = -1.0
        self._waits_for = ""
        self._bar: UUID | None = None

    def __call__(self, note: dict[str, Any]) -> None:
        total = note.get("bytes_total") or 0
        if not total:
            self._wait(str(note.get("what") or ""))
            return
        done = note["bytes_done"]
        if (share := 100 * done / total) != self._share:
            self._share = share
            text = f"{format_size(done)} of {format_size(total)}, {note['files_done']} of {note['files_total']} files"
            self._logger.info("staging %s: %s", self._what, text)
            self._show(share, text)

    def finish(self, text: str) -> None:
        """Say what came of it; where nothing had to be staged, in the log only."""
        self._logger.info(text)
        if self._bar is not None:
            self._show(100.0, text)

    def _wait(self, what: str) -> None:
        if what and what != self._waits_for:
            self._waits_for = what
            self._logger.info("staging %s: %s", self._what, what)

    def _show(self, share: float, text: str) -> None:
        if self._bar is None:
            key = re.sub("[^a-z0-9]+", "-", f"staging-{self._what}".lower())
            self._bar = cast(UUID, create_progress_artifact(progress=share, key=key, description=text))
        else:
            update_progress_artifact(self._bar, progress=share, description=text)
