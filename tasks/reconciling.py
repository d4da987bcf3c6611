"""Steps of reconcile: find what nobody looks after, take it up, follow it to its end."""

from collections.abc import Sequence
from datetime import timedelta

from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import get_client
from pydantic import BaseModel, ConfigDict

from blocks.clusters.port import Cluster
from tasks.errors import EXPECTED, quiet_engine
from tasks.flow_runs import mark_crashed, silent_flow_runs
from tasks.reporting import RunReporter
from tasks.runs.follow import Progress, follow
from tasks.runs.launch import Launch
from tasks.runs.reconcile import orphaned_runs, orphaned_sweeps, take_up
from tasks.sweeps.records import SweepRecord

quiet_engine()


class Orphans(BaseModel):
    """What nobody looked after on a volume.

    Args:
        runs: now live, or with their end on record.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    volume: str
    runs: tuple[Launch, ...]
    sweeps: tuple[SweepRecord, ...]


@task(name="find orphans", task_run_name="find orphans on {volume}")
def find_orphans(cluster: Cluster, volume: str, idle: timedelta) -> Orphans:
    """Find what nobody looks after, and have each run live or its end written down.

    Args:
        idle: how long nobody has.
    """
    logger, launches = get_run_logger(), []
    sweeps, theirs = orphaned_sweeps(cluster, volume, idle)
    for record in orphaned_runs(cluster, volume, idle, theirs):
        try:
            (launched,) = take_up(cluster, [record])
        except EXPECTED as error:  # a doubtful checkpoint, a source that is gone: for a person to decide
            logger.warning("run %s can not be taken up: %s", record.run, error)
            continue
        launches.append(launched)
        end, attempt = launched.attempt.end, launched.attempt.attempt
        what = f"ended as {end.state}: {end.reason}" if end else f"attempt {attempt} is live, and followed from now on"
        logger.info("run %s was followed by nobody: %s", record.run, what)
    for sweep in sweeps:
        logger.info("sweep %s was driven by nobody: it goes on from now on", sweep.sweep)
    if not launches and not sweeps:
        logger.info("volume %s: everything is looked after", volume)
    return Orphans(volume=volume, runs=tuple(launches), sweeps=tuple(sweeps))


def show_found(found: Sequence[Orphans], dead: Sequence[str]) -> None:
    """Show what was taken up; pages of the runs and sweeps show how they go on."""
    rows = [f"| flow run {name} | | it had sent no heartbeat: Prefect shows it as crashed now |" for name in dead]
    for orphans in found:
        for launched in orphans.runs:
            end = launched.attempt.end
            now = (
                f"had {end.state}: {end.reason}" if end else f"attempt {launched.attempt.attempt} is live, and followed"
            )
            rows.append(f"| run {launched.plan.run} | {orphans.volume} | {now.replace('|', '/')} |")
        rows += [f"| sweep {sweep.sweep} | {orphans.volume} | goes on |" for sweep in orphans.sweeps]
    looked = ", ".join(orphans.volume for orphans in found) or "none"
    text = f"### What nobody looked after\n\nVolumes looked at: {looked}.\n\n"
    text += "| what | volume | now |\n|---|---|---|\n" + "\n".join(rows) if rows else "Everything is looked after."
    said = f"{len(rows)} taken up" if rows else "everything is looked after"
    create_markdown_artifact(key="reconciled", markdown=text, description=said)


@task(name="end dead flow runs", task_run_name="end dead flow runs")
def end_dead_flow_runs(silence: timedelta) -> list[str]:
    """Have Prefect show as crashed what it shows as running and nobody runs: the names of those flow runs.

    Args:
        silence: how long they have sent no heartbeat.
    """
    with get_client(sync_client=True) as client:
        dead = silent_flow_runs(client, silence)
        for flow_run in dead:
            mark_crashed(client, flow_run, silence)
            get_run_logger().info("flow run %s is dead: no heartbeat; Prefect shows it as crashed now", flow_run.name)
    return [flow_run.name for flow_run in dead]


@task(name="follow", task_run_name="follow the orphans on {volume}")
def follow_orphans(cluster: Cluster, volume: str, launches: Sequence[Launch]) -> dict[str, str]:
    """Follow runs to their end, and report as their own flows would have: run → how it ended."""
    reporters = {launched.plan.run: RunReporter(cluster, launched) for launched in launches}

    def notice(progress: Progress) -> None:
        reporters[progress.launch.plan.run].notice(progress)

    found: dict[str, str] = {}
    over = [launched for launched in launches if launched.attempt.end is not None]
    live = [launched for launched in launches if launched.attempt.end is None]
    for some in filter(None, (over, live)):
        for progress in follow(cluster, some, notice):
            assert progress.end is not None
            reporters[progress.launch.plan.run].finish(progress)
            found[progress.launch.plan.run] = progress.end.state
    return found
