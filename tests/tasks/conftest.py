"""A local cluster with a Hub beside it, and runs asked for as the flows ask for them, without Prefect."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from blocks.clusters.job import Job
from blocks.clusters.local.cluster import LocalCluster
from blocks.clusters.local.jobs import LocalJobs
from blocks.clusters.local.place import Place
from blocks.clusters.port import Cluster
from blocks.hub_access import HubAccess
from blocks.trainer_settings import Resources, TrainerSettings
from tasks.plans.check import make_plan
from tasks.plans.plan import Plan, PlanError
from tasks.runs.ask import ask_fork, ask_run
from tasks.runs.claim import claim
from tasks.runs.follow import Progress, follow
from tasks.runs.launch import Launch, hold, launch
from tasks.runs.records import Dataset, PlanRecord, Weights
from tasks.runs.request import RunRequest
from tasks.stages.source import DatasetRequest
from tasks.stages.staged import stage_dataset, stage_snapshot
from tasks.stages.volume import ensure_volume

CONFIG = """
max_steps = 12
seed = 1
[model]
name = "slipway/tiny-lm"
[data]
name = "datasets/harbour"
batch_size = 4
seq_len = 16
[optim]
lr = 0.004
[ckpt]
interval = 4
"""


class Desk:
    """Asks for runs on one volume."""

    def __init__(self, cluster: Cluster, hub: HubAccess, assets: Path, volume: str = "v") -> None:
        self.cluster, self.hub, self.assets, self.volume = cluster, hub, assets, volume

    def request(
        self,
        run: str,
        config: str = CONFIG,
        *,
        resources: Resources | None = None,
        volume_size: str = "1Gi",
        **changes: Any,
    ) -> RunRequest:
        """A request with some keys of the config set: `optim__lr=0.1`."""
        return ask_run(
            run,
            config,
            TrainerSettings(kind="tiny", resources=resources or Resources()),
            changes=_dotted(changes),
            volume=self.volume,
            volume_size=volume_size,
            dataset=DatasetRequest(name="harbour", source=str(self.assets / "harbour")),
        )

    def fork(self, parent: str, run: str, step: Any = "latest", hold: Any = "link", **changes: Any) -> RunRequest:
        return ask_fork(self.cluster, self.volume, parent, run, step=step, changes=_dotted(changes), hold=hold)

    def plan(self, request: RunRequest) -> Plan:
        return make_plan(self.cluster, self.hub, request)

    def record(self, request: RunRequest) -> PlanRecord:
        """Plan, provision, stage, write down, hold: all that comes before a launch."""
        plan = self.plan(request)
        if plan.blocked:
            raise PlanError(plan)
        weights, dataset = self.have(plan)
        record = claim(self.cluster, plan, weights, dataset)
        hold(self.cluster, record)
        return record

    def have(self, plan: Plan) -> tuple[Weights, Dataset | None]:
        """Have on the volume what a planned run reads."""
        request = plan.request
        ensure_volume(self.cluster, self.volume, request.volume_size)
        assert plan.resolved is not None
        weights, dataset = plan.resolved.weights, plan.resolved.dataset
        if plan.snapshot:
            weights = stage_snapshot(self.cluster, self.hub, self.volume, plan.snapshot, lambda note: None)
        if dataset is None and request.dataset:
            dataset = stage_dataset(self.cluster, self.hub, self.volume, request.dataset, lambda note: None)
        return weights, dataset

    def launch(self, request: RunRequest) -> Launch:
        return launch(self.cluster, self.record(request))

    def train(self, request: RunRequest) -> Progress:
        """Launch or adopt a run and follow it to its end."""
        (progress,) = follow(self.cluster, [self.launch(request)], lambda progress: None)
        return progress


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    return LocalCluster(tmp_path / "cluster", poll_seconds=0.1)


@pytest.fixture
def first_starts_fail(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each job's first start comes to nothing, as if its submitter, or its supervisor at once, was killed. The jobs."""
    start, failed = LocalJobs._start, []

    def fail_first(self: LocalJobs, job: Job, place: Place) -> None:
        if job.name in failed:
            start(self, job, place)
        else:
            failed.append(job.name)

    monkeypatch.setattr(LocalJobs, "_start", fail_first)
    return failed


@pytest.fixture
def desk(cluster: LocalCluster, hub_url: str, demo_assets: Path) -> Desk:
    return Desk(cluster, HubAccess(endpoint=hub_url), demo_assets)


def _dotted(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("__", "."): value for key, value in changes.items()}
