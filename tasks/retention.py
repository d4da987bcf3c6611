"""Steps of retention: say what would go, then take it away."""

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact

from blocks.clusters.port import Cluster
from blocks.clusters.size import format_size
from tasks.errors import quiet_engine
from tasks.runs.prune import PruneReport, PruneRequest, plan_prune, prune

quiet_engine()


@task(name="plan retention", task_run_name="plan what to prune of {request.volume}")
def plan_retention(cluster: Cluster, request: PruneRequest) -> PruneReport:
    """Work out what would go, and show it."""
    report = plan_prune(cluster, request)
    what = f"{report.checkpoints} checkpoints would go, {format_size(report.freed_bytes)} would be free"
    get_run_logger().info("volume %s: %s", request.volume, what)
    create_markdown_artifact(key=f"{request.volume}-retention", markdown=page(request, report, what), description=what)
    return report


@task(name="prune", task_run_name="prune {request.volume}")
def prune_volume(cluster: Cluster, request: PruneRequest) -> PruneReport:
    """Take away what nobody needs."""
    report, logger = prune(cluster, request), get_run_logger()
    for run in report.runs:
        for item in run.deleted:
            done = "removed" if item.done else "left"
            logger.info("run %s: %s %s: %s", run.run, done, item.path, item.why)
    for found in report.unreferenced:
        done = "removed" if found.deleted else "there is"
        logger.info("%s %s %s: %s", done, found.kind, found.path, found.why)
    logger.info("volume %s: %s are free again", request.volume, format_size(report.freed_bytes))
    return report


def page(request: PruneRequest, report: PruneReport, conclusion: str) -> str:
    """A plan as Markdown."""
    rows = [(run.run, d.path, format_size(d.freed), d.why) for run in report.runs for d in run.deleted]
    text = f"### What retention takes from volume `{request.volume}`\n\n{conclusion}.\n"
    if rows:
        text += "\n| run | path | freed | why |\n|---|---|---|---|\n"
        text += "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows)
    if report.unreferenced:
        text += "\n### What no run refers to\n\n| | path | freed | why |\n|---|---|---|---|\n"
        for found in report.unreferenced:
            text += f"| {found.kind} | {found.path} | {format_size(found.freed)} | {found.why} |\n"
    return text
