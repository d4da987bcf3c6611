"""A volume with runs, checkpoints and forks on record, without anything that trains."""

from pathlib import Path
from typing import Any

from blocks.clusters.local.cluster import LocalCluster
from tasks.pod import holds, records, runs
from tasks.pod.checkpoints.fingerprint import fingerprint
from tasks.pod.layout import Layout
from tests.tasks.pod.checkpoints.writers import write_tiny


def claim(layout: Layout, run: str, *steps: int, **resolved: Any) -> None:
    plan = {
        "run": run,
        "max_steps": 100,
        "created_at": runs.now(),
        "config": {},
        "request": {"retention": resolved.pop("retention", None)},
        "trainer": {"kind": "none", "checkpoint_format": None, "checkpoints": "checkpoints", "metrics": "m.jsonl"},
        "resolved": {"weights": {"path": "models/m"}, "dataset": None, "source": None, **resolved},
    }
    runs.claim(layout, {"run": run, "plan": plan})
    for number in steps:
        write_tiny(step(layout, run, number), number)


def step(layout: Layout, run: str, number: int) -> Path:
    return layout.run(run) / f"checkpoints/step_{number}"


def source(layout: Layout, run: str, number: int) -> dict[str, Any]:
    path = step(layout, run, number)
    return {"run": run, "path": layout.relative(path), "step": number, "fingerprint": fingerprint(path)}


def hold(layout: Layout, fork: str, run: str, number: int) -> None:
    found = source(layout, run, number)
    holds.make(layout, {"fork": fork, "source": found["path"], "fingerprint": found["fingerprint"]})


def attempt(layout: Layout, run: str, number: int, resume: str | None, *, ended: bool) -> None:
    record = {"run": run, "attempt": number, "job": "j", "resume": {"kind": "own", "path": resume, "step": 1}}
    records.write_once(runs.attempts_of(layout, run) / f"{number}.json", record)
    if ended:
        runs.end(layout, {"run": run, "attempt": number, "end": {"state": "completed"}})


def root_of(cluster: LocalCluster, volume: str) -> Path:
    """The directory of a local volume."""
    return Path(cluster.volumes.check_mountable(volume))
