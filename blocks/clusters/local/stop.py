"""Ends a local job that no supervisor takes care of: one that never began, or one whose supervisor was killed."""

import contextlib
import os
import signal
import time

import psutil

from blocks.clusters.job import Cause, JobState
from blocks.clusters.local.files import read_json, try_lock
from blocks.clusters.local.identity import Identity
from blocks.clusters.local.place import Place
from blocks.clusters.local.process import signal_group


def end_unsupervised(place: Place, kill_at: float) -> bool:
    """End the job in the supervisor's stead. Returns False where it has a supervisor.

    Args:
        place: the job's.
        kill_at: when it is killed, by the monotonic clock.
    """
    try:
        lock = try_lock(place.lock)
    except FileNotFoundError:
        return False
    if lock is None:
        return False
    try:
        state = read_json(place.state) or {}
        program = Identity(*state["program"]) if "program" in state else None
        if not state or (program is not None and _end(program, kill_at)):
            place.write_end(
                {
                    "state": JobState.STOPPED,
                    "cause": Cause.STOPPED,
                    "reason": "Stopped on request; nobody saw its exit code." if state else "Stopped on request.",
                    "started_at": state.get("started_at"),
                    "ended_at": time.time(),
                }
            )
    finally:
        os.close(lock)
    return True


def _end(program: Identity, kill_at: float) -> bool:
    """End a program that is not our child. Returns whether it lived."""
    if not program.lives:
        return False
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):  # those that left the group, as torchrun's workers do
        family = psutil.Process(program.pid).children(recursive=True)
    if program.lives:
        signal_group(program.pid, signal.SIGTERM)
    while program.lives and time.monotonic() < kill_at:
        time.sleep(0.05)
    if program.lives:
        signal_group(program.pid, signal.SIGKILL)
    for process in family:
        with contextlib.suppress(psutil.Error):  # psutil compares the start time before it sends
            process.kill()
    patience = time.monotonic() + 10  # a process in the kernel's hands dies when it comes back
    while program.lives and time.monotonic() < patience:
        time.sleep(0.02)
    return True
