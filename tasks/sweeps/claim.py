"""Writes a sweep's plan down before any trial is launched."""

from collections.abc import Sequence
from datetime import UTC, datetime

from blocks.clusters.errors import ConflictError, SlipwayError
from blocks.clusters.port import Cluster
from tasks.runs.records import Dataset, Weights
from tasks.runs.version import slipway_version
from tasks.sweeps.plan import SweepPlan
from tasks.sweeps.records import Inputs, SweepRecord


class SweepPlanError(SlipwayError):
    """Something stands in the way of a sweep; nothing was launched."""

    def __init__(self, plan: SweepPlan) -> None:
        self.plan = plan
        lines = "; ".join(f"{i.subject}: {i.detail} {i.remedy}".strip() for i in plan.blocked)
        super().__init__(f"Sweep {plan.request.sweep!r} can not start. {lines}", "Nothing was launched.")


def claim_sweep(cluster: Cluster, plan: SweepPlan, staged: Sequence[tuple[Weights, Dataset | None]]) -> SweepRecord:
    """Write down the plan of a sweep, unless one is on record; return what is.

    Args:
        plan: one that nothing blocks.
        staged: what was staged for each of its runs, in their order.

    Raises:
        ConflictError: another request of that name came first.
    """
    if plan.record is not None:
        return plan.record
    request = plan.request
    trainer = request.base.adapter
    inputs = []
    for run, (weights, dataset) in zip(plan.runs, staged, strict=True):
        needs = trainer.needs(run.request.config)
        inputs.append(Inputs(model=needs.model, data=needs.dataset, weights=weights, dataset=dataset))
    record = SweepRecord(
        sweep=request.sweep,
        volume=request.volume,
        request=request,
        request_hash=request.request_hash(),
        inputs=tuple(inputs),
        created_at=datetime.now(UTC),
        version=slipway_version(),
    )
    arguments = {"sweep": request.sweep, "plan": record.model_dump(mode="json")}
    answer = cluster.call(request.volume, "sweeps.claim", arguments, writable=True)
    there = SweepRecord.model_validate(answer["plan"])
    if there.request_hash != record.request_hash:
        raise ConflictError(f"Sweep {request.sweep!r} exists and was asked for otherwise.", "Choose another name.")
    return there
