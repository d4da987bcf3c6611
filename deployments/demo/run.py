"""`make demo`: the main job, end to end, on the embedded default.

Provision a volume, stage a dataset and a pinned snapshot, fine-tune, fork from the latest completed step, report:
all of it triggered as a deployment run on a real Prefect server.
"""

import json
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from blocks.clusters.errors import SlipwayError
from blocks.clusters.port import Cluster
from deployments.stack import DEMO, Stack

VOLUME, RUN, FORK = "research", "demo", "demo-fork"
_CONSOLE = Console(highlight=False)


def main() -> None:
    begun = time.monotonic()

    def elapsed() -> float:
        return time.monotonic() - begun

    def say(text: str) -> None:
        _CONSOLE.print(f"[dim]{elapsed():6.1f} s[/dim]  {text}", soft_wrap=True)

    stack = Stack()
    was_up = stack.running
    try:
        stack.up(say)
        cluster = stack.settings().cluster()
        started = datetime.now().astimezone()
        _run_pipeline(cluster, say, elapsed)
        summary = _summarise(cluster, started)
    finally:
        if not was_up:
            stack.down(lambda text: None)
    _show(summary, elapsed(), was_up)


def _run_pipeline(cluster: Cluster, say: Any, elapsed: Any) -> None:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import FlowRun
    from prefect.deployments import run_deployment

    from deployments.demo.watch import Watch

    say("running the deployment pipeline/local: the worker starts its flow, which comes to its plan in some seconds")
    flow_run = cast(FlowRun, run_deployment("pipeline/local", parameters={"name": RUN}, timeout=0, as_subflow=False))
    with get_client(sync_client=True) as client:
        state = Watch(client, cluster, VOLUME, _CONSOLE).follow(flow_run.id, [RUN, FORK], elapsed)
    if not state.is_completed():
        raise SlipwayError(f"The pipeline ended as {state.name}: {state.message}", "`make up` shows it in the UI.")


def _summarise(cluster: Cluster, started: datetime) -> dict[str, Any]:
    from blocks.clusters.size import format_size
    from tasks.reports.page import render_page
    from tasks.reports.story import tell

    stories = [tell(cluster, VOLUME, run) for run in (RUN, FORK)]
    plan = stories[0].record.plan
    weights, dataset = plan.resolved.weights, plan.resolved.dataset
    volume = cluster.volumes.get(VOLUME)
    assert dataset is not None
    summary: dict[str, Any] = {
        "volume": {"name": VOLUME, "size": format_size(volume.size), "cluster": cluster.name},
        "snapshot": {"repo": weights.repo, "commit": weights.commit, "path": weights.path},
        "dataset": {"name": dataset.name, "version": dataset.version, "path": dataset.path},
        "runs": [story.facts() for story in stories],
        "reused": [story.run for story in stories if story.record.plan.created_at < started],
    }
    facts = [
        ("volume", f"{VOLUME}, {summary['volume']['size']}, on cluster {cluster.name}"),
        ("model snapshot", f"{weights.repo} at commit {weights.commit}"),
        ("dataset", f"{dataset.name}, version {dataset.version}"),
    ]
    DEMO.mkdir(parents=True, exist_ok=True)
    (DEMO / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    (DEMO / "report.html").write_text(render_page("Slipway demo", facts, stories))
    return summary


def _show(summary: dict[str, Any], seconds: float, was_up: bool) -> None:
    table = Table(title=f"The main job, end to end, in {seconds:.0f} s", title_justify="left", show_header=False)
    table.add_column(style="dim")
    table.add_column()
    table.add_row("volume", f"{summary['volume']['name']} ({summary['volume']['size']})")
    table.add_row("model", f"{summary['snapshot']['repo']} at commit {summary['snapshot']['commit'][:12]}")
    table.add_row("dataset", f"{summary['dataset']['name']}, version {summary['dataset']['version']}")
    for run in summary["runs"]:
        source = run["continued_from"]
        origin = f"continued from step {source['step']} of {source['run']}" if source else "started from the model"
        reused = " (reused: it was there from an earlier demo)" if run["run"] in summary["reused"] else ""
        steps = ", ".join(str(c["step"]) for c in run["checkpoints"] if c["verdict"] == "complete")
        table.add_row(
            f"run {run['run']}",
            f"{run['state']}, {origin}{reused}\nsteps {run['first_step']} to {run['last_step']}, "
            f"loss {run['first_loss']:.3f} → {run['last_loss']:.3f}\ncomplete checkpoints at steps {steps}",
        )
    _CONSOLE.print()
    _CONSOLE.print(table)
    _CONSOLE.print(f"\nReport with the loss curves: {_near(DEMO / 'report.html')}")
    _CONSOLE.print(f"The same as JSON:            {_near(DEMO / 'summary.json')}")
    if was_up:
        _CONSOLE.print("The stack of `make up` is still running; `make down` ends it.")
    else:
        _CONSOLE.print("Everything that was started is stopped. See it in the Prefect UI: `make up`,")
        _CONSOLE.print("then the address that it prints (usually http://127.0.0.1:4200). `make clean` starts over.")


def _near(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    try:
        main()
    except SlipwayError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped")
