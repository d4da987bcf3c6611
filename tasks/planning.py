"""The plan: made and shown before anything is launched."""

import logging

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact

from blocks.clusters.port import Cluster
from blocks.hub_access import HubAccess
from tasks.errors import quiet_engine
from tasks.plans.check import make_plan
from tasks.plans.plan import Mark, Plan, PlanError
from tasks.runs.claim import claim
from tasks.runs.records import Dataset, PlanRecord, Weights
from tasks.runs.request import RunRequest

quiet_engine()


@task(name="plan", task_run_name="plan {request.run}")
def plan_run(cluster: Cluster, hub: HubAccess, request: RunRequest) -> Plan:
    """Work out what a run would do, show it, and stop what can not work.

    Raises:
        PlanError: something stands in the way; nothing was launched.
    """
    plan = make_plan(cluster, hub, request)
    logger = get_run_logger()
    for item in plan.items:
        level = logger.info if item.mark in (Mark.READY, Mark.TO_DO) else logger.warning
        level("plan: %s: %s: %s", item.mark, item.subject, f"{item.detail} {item.remedy}".strip())
    logger.log(logging.ERROR if plan.blocked else logging.INFO, "plan of run %s: %s", request.run, plan.conclusion)
    create_markdown_artifact(key=f"{request.run}-plan", markdown=plan.markdown(), description=plan.conclusion)
    if plan.blocked:
        raise PlanError(plan)
    return plan


@task(name="write down the plan", task_run_name="write down the plan of {plan.request.run}")
def record_plan(cluster: Cluster, plan: Plan, weights: Weights, dataset: Dataset | None) -> PlanRecord:
    """Write down what was decided, before it is done; the first writer wins.

    Raises:
        ConflictError: the run was planned by somebody else at the same moment, with another request.
    """
    return claim(cluster, plan, weights, dataset)
