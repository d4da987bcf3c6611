"""Which runs of a volume continued from which, read from their plans: also of those whose files are gone."""

from pathlib import Path
from typing import Any

from tasks.pod import records
from tasks.pod.errors import ChangedError
from tasks.pod.layout import Layout
from tasks.pod.runs import PLAN, deleted_record, no_such_run, read_attempts, released_record


def lineage(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """The family of a run: all that its first ancestor's checkpoints were continued by.

    Args:
        arguments: {"run": id}.

    Returns:
        {"root", "runs": [{"run", "parent", "step", "source" (path on the volume), "fingerprint", "source_there",
        "held", "released", "created_at", "deleted_at", "max_steps", "attempts", "state" (of the last attempt that
        ended), "on_record"}]}, parents before their forks. The root may be a run that is not on record, or, where its
        checkpoint is no run's, the path that the first of them continued from.

    Raises:
        NotThereError: no such run.
    """
    plans = _plans(layout)
    run = arguments["run"]
    if run not in plans:
        raise no_such_run(run, plans)
    root, seen = run, {run}
    while (above := _parent(plans.get(root))) and above not in seen:
        root = above
        seen.add(root)
    found, waiting = [], [root]
    while waiting:
        name = waiting.pop(0)
        found.append(_described(layout, name, plans.get(name)))
        children = [r for r, plan in plans.items() if _parent(plan) == name and r != name and r != root]
        waiting += children
    return {"root": root, "runs": found}


def _plans(layout: Layout) -> dict[str, dict[str, Any]]:
    """Every plan that can be read, oldest first."""
    found = {}
    for path in (layout.ours / "runs").glob("*/plan.json"):
        try:
            found[path.parent.name] = records.read_record(path, PLAN)
        except (ChangedError, OSError):
            continue
    return dict(sorted(found.items(), key=lambda item: (str(item[1].get("created_at")), item[0])))


def _source(plan: dict[str, Any] | None) -> dict[str, Any]:
    return (plan or {}).get("resolved", {}).get("source") or {}


def _parent(plan: dict[str, Any] | None) -> str | None:
    source = _source(plan)
    return source.get("run") or (source.get("path") if source else None)


def _described(layout: Layout, run: str, plan: dict[str, Any] | None) -> dict[str, Any]:
    source = _source(plan)
    answer: dict[str, Any] = {
        "run": run,
        "parent": _parent(plan),
        "step": source.get("step"),
        "source": source.get("path"),
        "fingerprint": source.get("fingerprint"),
        "on_record": plan is not None,
    }
    if plan is None:
        return answer
    try:
        attempts = read_attempts(layout, run)
    except ChangedError:
        attempts = []
    ends = [attempt["end"] for attempt in attempts if attempt["end"]]
    return answer | {
        "source_there": _is_there(layout, source.get("path")),
        "held": _is_there(layout, source.get("hold")),
        "released": released_record(layout, run).exists(),
        "created_at": plan.get("created_at"),
        "deleted_at": (records.read_if_there(deleted_record(layout, run)) or {}).get("deleted_at"),
        "max_steps": plan.get("max_steps"),
        "attempts": len(attempts),
        "state": ends[-1]["state"] if ends and len(ends) == len(attempts) else None,
    }


def _is_there(layout: Layout, path: str | None) -> bool:
    return path is not None and Path(layout.resolve(path)).exists()
