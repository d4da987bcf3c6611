"""The records of sweeps: each one's plan, and its log of turns. A turn is written once and never changed: of two flows
that drive one sweep, only one can write the next turn, and the other reads it. What they mean is `tasks.sweeps`'."""

import re
from datetime import datetime
from typing import Any

from tasks.pod import records, runs
from tasks.pod.errors import ChangedError, PodError
from tasks.pod.layout import Layout
from tasks.pod.prepare import prepare

PLAN: records.Shape = {"sweep": str, "request": dict, "created_at": datetime}
_TURN_RECORD: records.Shape = {"by": str, "entries": list}
_TURN = re.compile(r"([0-9]{8})\.json")


def claim(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Write down the plan of a sweep, unless it has one.

    Args:
        arguments: {"sweep": name, "plan": the plan}.

    Returns:
        {"plan": the plan on record, "created": whether this call wrote it}.
    """
    plan, created = records.write_once(layout.sweep(arguments["sweep"]) / "plan.json", arguments["plan"])
    return {"plan": plan, "created": created}


def show(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """{"sweep", "plan" (null if there is none), "turns": lists of entries, "driver": who drove it last, when, and how
    long the sweep had lasted then, in seconds}.

    Args:
        arguments: {"sweep": name}.
    """
    sweep = arguments["sweep"]
    home = layout.sweep(sweep)
    plan = records.read_if_there(home / "plan.json", PLAN)
    turns = _turns(layout, sweep, 0) if plan else []
    return {"sweep": sweep, "plan": plan, "turns": turns, "driver": records.read_if_there(home / "driver.json")}


def list_sweeps(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """{"sweeps": what `show` says of each, oldest plan first, "damaged": {sweep: what is wrong}}."""
    names = [p.parent.name for p in layout.sweeps.glob("*/plan.json")] if layout.sweeps.is_dir() else []
    found, damaged = [], {}
    for name in names:
        try:
            found.append(show(layout, {"sweep": name}))
        except ChangedError as error:
            damaged[name] = str(error)
    return {"sweeps": sorted(found, key=lambda s: (s["plan"]["created_at"], s["sweep"])), "damaged": damaged}


def advance(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Take one turn: write down how attempts ended, then the turn, then have runs ready to be launched.

    Each part is there already where a call that was killed did it. Nothing is made ready for a turn that somebody else
    took.

    Args:
        arguments: {"sweep": name, "turn": its number, from 0, "entries": what to write down (nothing if empty),
            "ends": [{"run", "attempt", "end"}], "ready": [{"plan": a run's plan, "job": name of its first job}],
            "driver": who asks, "seconds": for how long the sweep has lasted by the asker's measure}.

    Returns:
        {"taken": whether the turn is the caller's, "turns": those from the given one on, where it is not,
        "runs": {run: what `runs.show` says, or {"error": {"what", "remedy"}} where it was refused}}.
    """
    sweep, turn = arguments["sweep"], int(arguments["turn"])
    alive = {"driver": arguments["driver"], "at": runs.now(), "seconds": arguments["seconds"]}
    records.replace(layout.sweep(sweep) / "driver.json", alive)
    for ended in arguments["ends"]:
        runs.end(layout, ended)
    if entries := arguments["entries"]:
        path = layout.sweep(sweep) / "log" / f"{turn:08d}.json"
        written, _ = records.write_once(path, {"turn": turn, "by": arguments["driver"], "entries": entries})
        if written.get("by") != arguments["driver"] or written.get("entries") != entries:
            return {"taken": False, "turns": _turns(layout, sweep, turn), "runs": {}}
    return {"taken": True, "turns": [], "runs": {a["plan"]["run"]: _ready(layout, a) for a in arguments["ready"]}}


def _ready(layout: Layout, asked: dict[str, Any]) -> dict[str, Any]:
    run = asked["plan"]["run"]
    try:
        claimed = runs.claim(layout, {"run": run, "plan": asked["plan"]})
        # a plan that was there may give its jobs another name: then whoever asks prepares the attempt
        if claimed["created"]:
            prepare(layout, {"run": run, "attempt": 1, "job": asked["job"]})
    except PodError as error:
        return {"error": {"what": error.what, "remedy": error.remedy}}
    return runs.show(layout, {"run": run})


def _turns(layout: Layout, sweep: str, first: int) -> list[list[dict[str, Any]]]:
    """The entries of the turns from `first` on, up to the first one that is not there."""
    folder = layout.sweep(sweep) / "log"
    there = {int(m[1]) for p in folder.iterdir() if (m := _TURN.fullmatch(p.name))} if folder.is_dir() else set()
    found = []
    while first in there:
        found.append(records.read_record(folder / f"{first:08d}.json", _TURN_RECORD)["entries"])
        first += 1
    return found
