"""Which attempt a job begins: its own, or, where its queue took it back and started it again, the run's next one."""

import os
from typing import Any

from tasks.pod import records
from tasks.pod.errors import StartedBeforeError
from tasks.pod.layout import Layout
from tasks.pod.runs import attempts_of, read_attempts

QUEUE = "SLIPWAY_QUEUE"
"""Where the cluster says which queue a job waits in: a queue takes a job back by suspending it. Its pod ends, and a new
one is made, once no program of the old one runs any more, when the queue starts the job again."""


def attempt_to_begin(layout: Layout, plan: dict[str, Any], number: int) -> int:
    """The attempt that a job is to begin which was made for attempt `number`.

    One that has begun is over: the next one is prepared here as it is before any launch, and the job goes on as that,
    so that its run keeps its place in the queue and needs nobody who follows it.

    Raises:
        StartedBeforeError: it has begun, and is of several nodes, which can not agree on a next one, or of no queue; or
            another job, or none, is to go on with the run.
        ChangedError: training can not go on (see `prepare`).
    """
    run, nodes = plan["run"], plan["request"]["trainer"].get("resources", {}).get("nodes", 1)
    job = records.read_record(attempts_of(layout, run) / f"{number}.json")["job"]
    if nodes > 1 or QUEUE not in os.environ:
        return number
    last = [attempt for attempt in read_attempts(layout, run) if attempt["job"] == job][-1]
    taken_back = last["end"] is None or last["end"]["cause"] == "evicted"
    if not last["started"] or not taken_back:
        return int(last["attempt"])
    return _next(layout, run, job, last)


def _next(layout: Layout, run: str, job: str, last: dict[str, Any]) -> int:
    from tasks.pod.prepare import prepare  # takes its time to import, and few begin twice

    asked = {
        "run": run,
        "attempt": last["attempt"] + 1,
        "job": job,
        "trust": last.get("trusted", ()),
        "version": last.get("version"),
        "taken_back": True,
    }
    attempt = prepare(layout, asked)["attempt"]
    if attempt["job"] != job:
        goes_on = f"goes on with the job {attempt['job']}" if attempt["job"] else "has no step left to train"
        raise StartedBeforeError(
            f"Attempt {last['attempt']} of run {run!r} was taken back by its queue, and the run {goes_on}.",
            "There is nothing to do.",
        )
    return int(attempt["attempt"])
