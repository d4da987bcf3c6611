"""What must be known before something staged is taken away: which runs are over although nobody wrote that down."""

from blocks.clusters.port import Cluster
from tasks.runs.launch import read_runs
from tasks.runs.state import run_state


def ended_runs(cluster: Cluster, volume: str) -> dict[str, list[str]]:
    """For the programs that remove: runs with an attempt that is no longer live, by the cluster's word."""
    records, _ = read_runs(cluster, volume)
    states = run_state(cluster, records)
    return {"over": [r.run for r in records if states[r.run].over]}
