"""Makes the plan of a run, shows it, and stops what can not work, before Prefect is imported."""

import sys
from typing import TYPE_CHECKING

import typer

from flows.cli.options import Output
from flows.cli.show import say, show_json, show_table

if TYPE_CHECKING:
    from blocks.clusters.port import Cluster
    from blocks.hub_access import HubAccess
    from tasks.plans.plan import Plan
    from tasks.runs.request import RunRequest


def plan(cluster: "Cluster", hub: "HubAccess", request: "RunRequest", output: Output, *, only: bool) -> None:
    """Show the plan on standard error, and end the command where something stands in the way.

    Args:
        only: the plan is all that was asked for: with JSON, it goes to standard output.

    Raises:
        UsageError: the run or its volume can not be called so.
        typer.Exit: something is blocked: 2 for the config, which can never work, else 1.
    """
    from flows.cli.show import waiting
    from tasks.plans.check import make_plan

    check_names(request.run, request.volume)
    with waiting(f"planning run {request.run}"):
        made = make_plan(cluster, hub, request)
    as_json = only and output is Output.JSON
    if as_json:
        show_json(_as_json(made))
    else:
        _show(made)
    if made.blocked:
        for item in made.blocked:
            print(f"error: {item.subject}: {item.detail} {item.remedy}".rstrip(), file=sys.stderr)
        say("Nothing was launched.")
        raise typer.Exit(2 if any(item.subject.startswith("config ") for item in made.blocked) else 1)


def check_names(run: str, volume: str) -> None:
    from blocks.clusters.errors import UsageError
    from blocks.clusters.names import check_name
    from tasks.runs.request import RUN_ID_LONGEST

    check_name("volume", volume)
    check_name("run", run)
    if len(run) > RUN_ID_LONGEST:
        raise UsageError(f"The run name {run!r} has {len(run)} characters.", f"{RUN_ID_LONGEST} at most are allowed.")


def _show(plan: "Plan") -> None:
    say(f"Plan of run {plan.request.run}")
    rows = [
        (item.mark.value, item.subject, item.detail if item in plan.blocked else f"{item.detail} {item.remedy}".strip())
        for item in plan.items  # the remedies of what is blocked are in the error lines that follow
    ]
    show_table(("", "what", "details"), rows, empty="", wraps="details", to_stderr=True)
    say("")


def _as_json(plan: "Plan") -> dict[str, object]:
    return {
        "run": plan.request.run,
        "volume": plan.request.volume,
        "blocked": bool(plan.blocked),
        "items": [item.model_dump(mode="json") for item in plan.items],
        "resolved": plan.resolved.model_dump(mode="json") if plan.resolved else None,
        "snapshot": plan.snapshot.model_dump(mode="json") if plan.snapshot else None,
        "request": plan.request.model_dump(mode="json"),
    }
