"""Fork: a new run that continues from a completed step of another."""

from typing import Any

from prefect import flow

from blocks.hub import HuggingFaceHub
from blocks.local_cluster import LocalCluster
from flows.cancellation import stop_jobs
from flows.naming import flow_run_label, this_run
from flows.parameters import Hold, Name, RunName, Step, step_of
from flows.train import train
from tasks.runs.ask import ask_fork
from tasks.training import RunResult


@flow(name="fork", flow_run_name=flow_run_label, on_cancellation=[stop_jobs])
def fork(
    cluster: LocalCluster,
    hub: HuggingFaceHub,
    volume: Name,
    run: RunName,
    step: Step = "latest",
    set: dict[str, Any] | None = None,  # noqa: A002 - the word that people type
    name: RunName | None = None,
    hold: Hold = "link",
    wait: bool = True,
) -> RunResult:
    """Continue training from a completed checkpoint of another run, with its config and some changes.

    Args:
        cluster: Where to run.
        hub: Where the base model comes from, should it no longer be staged.
        volume: The volume that both runs are on.
        run: The run to fork.
        step: A completed step, or "latest" for the newest completed one.
        set: Changes to the config by dotted key, such as {"max_steps": 200, "optim.lr": 0.0005}.
        name: Name of the new run. Empty: made from the flow run.
        hold: "link" keeps the source alive at no cost; "copy" also when the parent saves that step again.
        wait: Follow the run to its end; otherwise return once its job is submitted.
    """
    place = cluster.connect()
    request = ask_fork(place, volume, run, this_run(name, "fork"), step=step_of(step), changes=set, hold=hold)
    return train(place, hub.access(), request, wait=wait)
