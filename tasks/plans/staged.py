"""The last check before a launch: whether what was just staged is what the trainer can read."""

from blocks.clusters.port import Cluster
from tasks.plans.inputs import check_content
from tasks.plans.plan import Blocked, Item, Mark, Plan, PlanError
from tasks.runs.records import Dataset


def refuse_misfit(cluster: Cluster, plan: Plan, dataset: Dataset) -> tuple[Item, ...]:
    """Look at what staging found in a dataset; return the warnings.

    Raises:
        PlanError: the trainer can not read it. It stays staged; nothing was launched.
    """
    request, found = plan.request, list[Item]()
    state = cluster.call(request.volume, "datasets.state", {"name": dataset.name, "version": dataset.version})

    def add(mark: Mark, subject: str, detail: str, remedy: str = "") -> None:
        found.append(Item(subject=subject, mark=mark, detail=detail, remedy=remedy))

    try:
        check_content(state["content"], request.adapter.needs(request.config), add)
    except Blocked as blocked:
        raise PlanError(plan.model_copy(update={"items": (*plan.items, blocked.item)})) from None
    return tuple(found)
