"""Waits until a run has a completed checkpoint at or above a step: what a follow-up is planned from."""

import time
from collections.abc import Callable

from blocks.clusters.errors import SlipwayError
from blocks.clusters.port import Cluster
from tasks.runs.launch import checkpoints, read_run
from tasks.runs.records import Record
from tasks.runs.state import RunState, run_state


class Completed(Record):
    """A completed checkpoint that training can go on from.

    Args:
        path: relative to the run's directory.
        bytes: of all its files.
    """

    path: str
    step: int
    format: str
    bytes: int
    fingerprint: str


class NoCheckpointError(SlipwayError):
    """A run ended, or the time was over, without the checkpoint that was waited for."""


def wait_for_checkpoint(
    cluster: Cluster,
    volume: str,
    run: str,
    step: int,
    *,
    timeout_seconds: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Completed:
    """Return the first completed checkpoint of a run at or above a step, as soon as there is one.

    A run that is planned or queued is waited for.

    Args:
        step: counted from the start of the original training.
        timeout_seconds: None to wait as long as the run lives.
        sleep: waits between looks, in seconds.

    Raises:
        NotFoundError: no such run.
        NoCheckpointError: the run ended without it; says how, and the newest completed step.
    """
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    while True:
        record = read_run(cluster, volume, run)
        state = run_state(cluster, [record])[run]
        # looked at after the state: what an ended job saved is seen
        found = checkpoints(cluster, record.plan)
        good = [
            Completed.model_validate(c) for c in found if c["verdict"] == "complete" and c["resumable"] and c["step"]
        ]
        for checkpoint in good:
            if checkpoint.step >= step:
                return checkpoint
        if state.over:
            raise _without(run, step, f"ended as {_now(state)}", good)
        if deadline is not None and time.monotonic() > deadline:
            raise _without(run, step, f"is still {_now(state)} after {timeout_seconds:g} seconds", good)
        sleep(cluster.poll_seconds)


def _now(state: RunState) -> str:
    return f"{state.state} ({state.reason})" if state.reason else state.state


def _without(run: str, step: int, what: str, good: list[Completed]) -> NoCheckpointError:
    newest = f"its newest one is step {good[-1].step}" if good else "it has none"
    return NoCheckpointError(
        f"Run {run} {what} without a completed checkpoint at or above step {step}; {newest}.",
        "Ask for the run again to continue it, or wait for a step that it saves.",
    )
