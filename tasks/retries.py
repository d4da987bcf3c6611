"""Tells a retry by Prefect from a person's request."""

from prefect.context import FlowRunContext


def automatic_retry() -> bool:
    """Whether the flow run around this step is one of the retries that the flow itself asks for."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return False
    retries = context.flow_run.empirical_policy.retries or 0
    return 1 < context.flow_run.run_count <= 1 + retries
