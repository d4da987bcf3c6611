"""Peak resident memory of every kind of process while the demo's pipeline runs under a worker."""

import time
from collections import defaultdict

import psutil

from benchmarks.measure import table
from deployments.processes import noted
from deployments.stack import Stack

_KINDS = {
    "trainer": ("tasks.pod.trainers.tiny.program",),
    "supervisor of a job": ("blocks.clusters.local.supervisor",),
    "program beside the data": ("tasks.pod.program",),
    "flow run": ("prefect.flow_engine", "prefect flow-run execute", "prefect.engine"),
}
TICK_SECONDS = 0.05


def main(stack: Stack) -> None:
    """Run the pipeline and print the table.

    Args:
        stack: one that is up; its server's address is in this process's environment.
    """
    from prefect.client.orchestration import get_client
    from prefect.deployments import run_deployment

    long_lived = {what: _pid(stack, what) for what in ("server", "worker", "hub")}
    peaks: dict[str, int] = defaultdict(int)
    begun = run_deployment("pipeline/local", parameters={"name": "memory"}, timeout=0, as_subflow=False)
    with get_client(sync_client=True) as client:
        looked = 0.0
        while True:
            for what, pid in long_lived.items():
                peaks[what] = max(peaks[what], _resident(psutil.Process(pid)))
            for process in psutil.process_iter():
                if kind := _kind(process):
                    peaks[kind] = max(peaks[kind], _resident(process))
            if time.monotonic() - looked > 1:
                looked = time.monotonic()
                state = client.read_flow_run(begun.id).state
                if state is not None and state.is_final():
                    assert state.is_completed(), state
                    break
            time.sleep(TICK_SECONDS)
    base = peaks["worker"]
    rows = [(kind, f"{peak / 2**20:.0f} MiB", f"{peak / base:.2f}") for kind, peak in sorted(peaks.items())]
    table("Peak memory during the demo's pipeline", ("process", "peak memory", "ratio to the worker"), rows)


def _pid(stack: Stack, what: str) -> int:
    note = noted(stack.home if what == "server" else stack.state, what)
    assert note is not None, what
    return int(note["pid"])


def _kind(process: psutil.Process) -> str | None:
    try:
        words = " ".join(process.cmdline())
    except psutil.Error:
        return None
    return next((kind for kind, marks in _KINDS.items() if any(mark in words for mark in marks)), None)


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
