"""Sweeps of thousands of trials on a simulated cluster behind the same port: jobs are over at once, programs beside the
data run in this process on a real directory. Says what deciding and writing down costs, and where it bends."""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, table
from blocks.clusters.job import Cause, Job, JobState, JobStatus
from blocks.trainer_settings import Resources, TrainerSettings
from tasks.pod.layout import Layout
from tasks.pod.program import load
from tasks.runs.ask import ask_run
from tasks.runs.job import RUN_LABEL
from tasks.runs.records import Weights
from tasks.sweeps.ask import ask_sweep, read_search
from tasks.sweeps.drive import Drive
from tasks.sweeps.records import Inputs, SweepRecord

CONFIG = '[model]\nname = "a/b"\n[data]\nname = "datasets/d"\n[ckpt]\n'


_MOST_TPE = 1_000
"""Its cost a trial grows with their number: see docs/sweeps.md."""


class SimulatedJobs:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._jobs: dict[str, JobStatus] = {}
        self.requests = 0

    def submit(self, job: Job) -> JobStatus:
        self.requests += 1
        now = datetime.now(UTC)
        run = job.labels[RUN_LABEL]
        with (self._layout.run(run) / "metrics.jsonl").open("w") as file:
            file.write(json.dumps({"step": 1, "loss": hash(run) % 10_000 / 10_000}) + "\n")
        self._jobs[job.name] = JobStatus(
            name=job.name,
            uid=job.name,
            request_hash=job.request_hash,
            state=JobState.COMPLETED,
            cause=Cause.COMPLETED,
            submitted_at=now,
            started_at=now,
            ended_at=now,
        )
        return self._jobs[job.name]

    def status(self, names: Iterable[str]) -> dict[str, JobStatus]:
        self.requests += 1
        return {name: self._jobs[name] for name in names if name in self._jobs}


class SimulatedCluster:
    """As much of the port as driving a sweep takes."""

    name, owner, poll_seconds = "simulated", "me", 1.0

    def __init__(self, root: Path) -> None:
        self.layout = Layout(root)
        self.jobs = SimulatedJobs(self.layout)
        self.calls = 0

    def call(self, volume: str | None, program: str, arguments: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        self.calls += 1
        # through JSON, as on a real one
        answer = load(program)(self.layout, json.loads(json.dumps(arguments)))
        return json.loads(json.dumps(answer))  # type: ignore[no-any-return]


def simulate(counts: list[int], parallel: int = 100) -> None:
    """Print what a trial costs, method by method."""
    print(machine())
    rows = []
    for count in counts:
        for method in ("random", "halving", "tpe") if count <= _MOST_TPE else ("random", "halving"):
            rows.append(_one(method, count, parallel))
            print(f"  {' '.join(rows[-1])}", file=sys.stderr, flush=True)
    table(
        f"Simulated, {parallel} at once",
        ("", "trials", "CPU a trial", "of which the driver's", "calls a trial", "memory for them", "read again"),
        rows,
    )


def _one(method: str, count: int, parallel: int) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for place in ("weights", "datasets/d/1"):
            (root / place).mkdir(parents=True)
        cluster = SimulatedCluster(root)
        axes = {"optim.lr": {"log_range": [1e-4, 1e-2], "points": count}}
        content = {"method": method, "axes": axes, "limits": {"trials": count, "parallel": parallel}}
        if method == "halving":
            content["halving"] = {"min_steps": 1, "factor": 3, "rungs": 3}
        base = ask_run(
            "bench",
            CONFIG,
            TrainerSettings(kind="tiny", resources=Resources()),
            volume="v",
            changes={"max_steps": 1},
        )
        request = ask_sweep("bench", read_search(content, "the benchmark"), base)
        inputs = Inputs(model="a/b", data="datasets/d", weights=Weights(path="weights"))
        record = SweepRecord(
            sweep="bench",
            volume="v",
            request=request,
            request_hash=request.request_hash(),
            inputs=(inputs,),
            created_at=datetime.now(UTC),
            version="0",
        )
        plan = {"sweep": "bench", "plan": record.model_dump(mode="json")}
        cluster.call("v", "sweeps.claim", plan)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began, timed = time.process_time(), _Timed(cluster)
        state = Drive(timed, record, lambda drive: None, sleep=lambda seconds: None).to_its_end()  # type: ignore[arg-type]
        spent = time.process_time() - began
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert len(state.ranked(1)) == count, (len(state.ranked(1)), count)
        began = time.process_time()
        assert Drive(timed, record, lambda drive: None).to_its_end().over  # type: ignore[arg-type]
        again = time.process_time() - began
        return (
            method,
            str(count),
            f"{1000 * spent / count:.1f} ms",
            f"{1000 * (spent - timed.seconds) / count:.1f} ms",
            f"{cluster.calls / count:.2f}",
            f"{grown / 1024:.0f} MiB",
            f"{again:.1f} s",
        )


class _Timed:
    """The cluster, with the CPU seconds that its calls take: what a real one pays beside the data."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.seconds = 0.0
        self.jobs = cluster.jobs
        self.poll_seconds = cluster.poll_seconds

    def call(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        began = time.process_time()
        answer = self._cluster.call(*arguments, **options)
        self.seconds += time.process_time() - began
        return answer
