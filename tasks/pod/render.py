"""A job's init command: follows the attempt's record and puts the final config into scratch. Decides nothing."""

import os
import sys
from pathlib import Path
from typing import Any

from tasks.pod import holds, records
from tasks.pod.again import attempt_to_begin
from tasks.pod.errors import ChangedError, StartedBeforeError
from tasks.pod.hydrate import place_weights
from tasks.pod.layout import Layout
from tasks.pod.runs import attempts_of, is_deleted, now, read_plan
from tasks.pod.trainers.adapter import Places
from tasks.pod.trainers.references import is_settled, names_dataset
from tasks.pod.trainers.table import adapter_of


def render(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Write the config that the trainer of an attempt gets, and return its path.

    A held source is checked once more: the job may have queued for hours since it was prepared. An attempt starts
    once: a job (or a replaced pod) that comes second finds the first one's mark and refuses, because what the first
    left behind has not been looked at; or looks at it, and begins the next attempt (see `tasks.pod.again`).

    Args:
        arguments: {"run": id, "attempt": the number that the job was made for}.

    Raises:
        ChangedError: the held source has other bytes than when it was chosen.
        StartedBeforeError: the attempt has started before.
    """
    run = arguments["run"]
    plan = read_plan(layout, run)
    if is_deleted(layout, run):
        raise ChangedError(f"Run {run!r} was deleted while its job waited.", "Choose another name.")
    number = attempt_to_begin(layout, plan, arguments["attempt"])
    resume = records.read_record(attempts_of(layout, run) / f"{number}.json")["resume"]
    if (attempts_of(layout, run) / f"{number}.end.json").exists():
        raise ChangedError(f"Attempt {number} of run {run!r} was stopped before it started.", "Ask for the run again.")
    rank = os.environ.get("NODE_RANK", "0")
    mark = (
        f"{number}.started.json" if rank == "0" else f"{number}.started-{rank}.json"
    )  # of several nodes, each its own
    _, first = records.write_once(attempts_of(layout, run) / mark, {"started_at": now()})
    if not first:
        raise StartedBeforeError(
            f"Attempt {number} of run {run!r} has started before.", "Run it again: a new attempt resumes."
        )
    if resume["kind"] == "hold":
        holds.verify(layout, run, resume["fingerprint"])
    scratch = Path(os.environ.get("SLIPWAY_SCRATCH", "/scratch"))
    weights, report = place_weights(layout, plan, number, scratch)
    records.write_once(attempts_of(layout, run) / f"{number}.weights.json", report)
    trainer = adapter_of(plan)
    places = Places(
        weights=str(weights),
        dataset=str(layout.resolve(plan["resolved"]["dataset"]["path"])) if plan["resolved"]["dataset"] else None,
        output=str(layout.run(run)),
        resume=str(layout.resolve(resume["path"])) if resume["path"] else None,
        scratch=str(scratch),
        gpus=_resources(plan).get("gpus", 0),
        nodes=_resources(plan).get("nodes", 1),
    )
    config = _here(plan["config"], layout, scratch)
    target, text, programs = (
        scratch / trainer.config_name,
        trainer.render(config, places),
        trainer.programs(config, places),
    )
    record = {"name": target.name, "text": text, "programs": dict(programs)}
    records.write_once(attempts_of(layout, run) / f"{number}.config.json", record)
    for name, content in {target.name: text, **programs}.items():
        (scratch / name).write_text(content, encoding="utf-8")
    origin = {"own": "its own step", "hold": "the held step", "base": "the base weights, step"}[resume["kind"]]
    print(f"attempt {number} of {run} starts from {origin} {resume['step']}", file=sys.stderr)
    return {"config": str(target)}


def _resources(plan: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = plan.get("request", {}).get("trainer", {}).get("resources", {})
    return found


def _here(value: Any, layout: Layout, scratch: Path) -> Any:
    """A config whose paths on the volume and in scratch are those of this machine: in a container they are already."""
    if isinstance(value, dict):
        return {key: _here(inner, layout, scratch) for key, inner in value.items()}
    if isinstance(value, list):
        return [_here(inner, layout, scratch) for inner in value]
    if isinstance(value, str) and (is_settled(value) or not names_dataset(value)):  # else a version is put there
        for mounted, real in (("/volume", layout.root), ("/scratch", scratch)):
            if value == mounted or value.startswith(f"{mounted}/"):
                return str(real) + value[len(mounted) :]
    return value
