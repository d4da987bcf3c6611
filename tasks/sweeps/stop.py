"""Stops a sweep, or lets it end where it is."""

import secrets

from blocks.clusters.port import Cluster
from tasks.errors import EXPECTED
from tasks.runs.launch import stop
from tasks.sweeps.log import Closing
from tasks.sweeps.records import read_sweep


def stop_sweep(cluster: Cluster, volume: str, sweep: str) -> list[str]:
    """Stop the runs of a sweep that train, and return them. Asked for again, the sweep goes on with them.

    Raises:
        NotFoundError: no such sweep.
    """
    _, state = read_sweep(cluster, volume, sweep)
    stopped = []
    for node in state.live:
        try:
            end = stop(cluster, volume, node.start.run, reason="its sweep was stopped")
        except EXPECTED:
            continue  # it had not come to that run
        if end is not None and end.state == "stopped":
            stopped.append(node.start.run)
    return stopped


def end_sweep(cluster: Cluster, volume: str, sweep: str, reason: str) -> bool:
    """Have a sweep begin nothing any more and stop what trains; False if it is over already.

    Whoever drives it sees that at its next turn; if nobody does, the sweep is over once it is asked for again.

    Raises:
        NotFoundError: no such sweep.
    """
    entry = Closing(reason=reason, stop=True).model_dump(mode="json")
    while True:
        _, state = read_sweep(cluster, volume, sweep)
        if state.over is not None or state.closing is not None:
            return False
        arguments = {"sweep": sweep, "turn": state.turns, "entries": [entry], "ends": [], "ready": []}
        by = {"driver": secrets.token_hex(8), "seconds": None}
        if cluster.call(volume, "sweeps.advance", {**arguments, **by}, writable=True)["taken"]:
            stop_sweep(cluster, volume, sweep)
            return True
