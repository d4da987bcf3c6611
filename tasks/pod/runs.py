"""The records of a run: its plan, its attempts and how each ended. What they mean together is `tasks.runs.state`'s."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tasks.pod import records
from tasks.pod.errors import NotThereError
from tasks.pod.layout import Layout
from tasks.pod.metrics import last_metrics

_ATTEMPT = re.compile(r"([1-9][0-9]*)\.json")


def claim(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Write down the plan of a run, unless it has one.

    Args:
        arguments: {"run": id, "plan": the plan}.

    Returns:
        {"plan": the plan on record, "created": whether this call wrote it}.
    """
    plan, created = records.write_once(layout.records(arguments["run"]) / "plan.json", arguments["plan"])
    return {"plan": plan, "created": created}


def end(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Write down how an attempt ended, unless somebody has.

    Args:
        arguments: {"run": id, "attempt": number, "end": {"state", "cause", "reason", …}}.
    """
    path = attempts_of(layout, arguments["run"]) / f"{int(arguments['attempt'])}.end.json"
    written, created = records.write_once(path, arguments["end"])
    return {"end": written, "created": created}


def show(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Everything on record of one run: {"run", "plan", "attempts", "metrics"}; {"run", "plan": null} if there is none.

    Args:
        arguments: {"run": id}.
    """
    run = arguments["run"]
    plan = records.read_if_there(layout.records(run) / "plan.json")
    if plan is None:
        return {"run": run, "plan": None, "attempts": [], "metrics": None}
    metrics = layout.run(run) / plan["trainer"]["metrics"]
    return {
        "run": run,
        "plan": plan,
        "attempts": read_attempts(layout, run),
        "metrics": last_metrics(metrics),
    }


def list_runs(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """{"runs": what `show` says of each, oldest plan first}."""
    folder = layout.ours / "runs"
    names = sorted(p.parent.name for p in folder.glob("*/plan.json")) if folder.is_dir() else []
    runs = [show(layout, {"run": name}) for name in names]
    return {"runs": sorted(runs, key=lambda r: (r["plan"]["created_at"], r["run"]))}


def read_plan(layout: Layout, run: str) -> dict[str, Any]:
    """Raises: NotThereError, naming the runs there are."""
    plan = records.read_if_there(layout.records(run) / "plan.json")
    if plan is None:
        known = ", ".join(r["run"] for r in list_runs(layout, {})["runs"]) or "none"
        raise NotThereError(f"There is no run {run!r} on this volume.", f"Runs there: {known}.")
    return plan


def read_attempts(layout: Layout, run: str) -> list[dict[str, Any]]:
    """The attempts of a run in order, each with `started` (its init command ran) and `end` (or null)."""
    folder = attempts_of(layout, run)
    numbers = sorted(int(m[1]) for p in _files(folder) if (m := _ATTEMPT.fullmatch(p.name)))
    return [
        {
            **records.read_record(folder / f"{n}.json"),
            "started": (folder / f"{n}.started.json").exists(),
            "end": records.read_if_there(folder / f"{n}.end.json"),
        }
        for n in numbers
    ]


def is_deleted(layout: Layout, run: str) -> bool:
    """Whether a run is on record only for those that were forked from it."""
    return (layout.records(run) / "deleted.json").exists()


def attempts_of(layout: Layout, run: str) -> Path:
    return layout.records(run) / "attempts"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []
