"""Cancelling a flow stops its jobs. Killing its process does not: whoever asks next adopts them."""

from typing import Any

from prefect import Flow, State
from prefect.client.schemas.objects import FlowRun

from blocks.cluster import read_cluster
from flows.naming import runs_made_by
from tasks.errors import EXPECTED
from tasks.runs.launch import stop


def stop_jobs(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """A hook of every flow that launches jobs. Prefect calls it by keyword, in a process of its own."""
    cluster = read_cluster(flow_run.parameters["cluster"]).connect()
    volume = flow_run.parameters.get("volume")
    for run in runs_made_by(flow.name, flow_run):
        for name in [volume] if volume else [v.name for v in cluster.volumes.list()]:
            try:
                end = stop(cluster, name, run, reason="its flow run was cancelled in Prefect")
            except EXPECTED:
                continue  # it had not come to that run
            if end is not None:
                print(f"run {run}: {end.state}")
