"""Writes a run's plan down before anything of it is done."""

from datetime import UTC, datetime

from blocks.clusters.errors import ConflictError
from blocks.clusters.port import Cluster
from tasks.plans.plan import Plan
from tasks.runs.records import Dataset, PlanRecord, Resolved, TrainerFacts, Weights
from tasks.runs.request import RunRequest, differences
from tasks.runs.version import slipway_version


def claim(cluster: Cluster, plan: Plan, weights: Weights, dataset: Dataset | None) -> PlanRecord:
    """Write down the plan of a run, unless one is on record; return what is.

    Args:
        plan: one that nothing blocks.
        weights, dataset: as they were staged.

    Raises:
        ConflictError: another request of that name came first.
    """
    if plan.record is not None:
        return plan.record
    request = plan.request
    source = plan.resolved.source if plan.resolved else None
    record = record_of(request, Resolved(weights=weights, dataset=dataset, source=source))
    arguments = {"run": request.run, "plan": record.model_dump(mode="json")}
    claimed = cluster.call(request.volume, "runs.claim", arguments, writable=True)["plan"]
    there = PlanRecord.read(f"run {request.run}", claimed)
    if there.request_hash != record.request_hash:
        changed = "; ".join(differences(there.request.asked(), request.asked()))
        raise ConflictError(
            f"Run {request.run!r} exists and was asked for otherwise ({changed}).", "Choose another name."
        )
    return there


def record_of(request: RunRequest, resolved: Resolved) -> PlanRecord:
    """The plan of a run as it is to be written down.

    Args:
        request: one whose config has no problems.
        resolved: what it reads, staged.
    """
    trainer = request.adapter
    return PlanRecord(
        run=request.run,
        volume=request.volume,
        request=request,
        request_hash=request.request_hash(),
        config=request.config,
        trainer=TrainerFacts(
            kind=trainer.kind,
            image=request.trainer.image,
            checkpoint_format=trainer.checkpoint_format,
            checkpoints=trainer.checkpoints,
            metrics=trainer.metrics,
        ),
        resolved=resolved,
        max_steps=trainer.needs(request.config).max_steps,
        created_at=datetime.now(UTC),
        version=slipway_version(),
    )
