"""The records of a run: its plan, its attempts and how each ended. What they mean together is `tasks.runs.state`'s."""

import contextlib
import fcntl
import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any

from tasks.pod import holds, records
from tasks.pod.errors import ChangedError, NotThereError
from tasks.pod.layout import Layout
from tasks.pod.metrics import by_step, last_metrics, read_metrics
from tasks.pod.trainers.schema import nearest

PLAN: records.Shape = {
    "run": str,
    "trainer": {"checkpoints": str, "metrics": str, "checkpoint_format": (str, NoneType)},
    "resolved": dict,
    "max_steps": (int, NoneType),
    "created_at": datetime,
}
_ATTEMPT_RECORD: records.Shape = {"attempt": int, "resume": dict}
_FOLLOWED = "followed.json"
GONE = "Its files were removed, or it is not mounted where it was. A job that is live goes on, and writes where it can."
_ATTEMPT = re.compile(r"([1-9][0-9]*)\.json")


def claim(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Write down the plan of a run, unless it has one; the source of a fork is held first.

    So no plan is on record whose source is gone before it could be held.

    Args:
        arguments: {"run": id, "plan": the plan}.

    Returns:
        {"plan": the plan on record, "created": whether this call wrote it}.
    """
    run, path = arguments["run"], layout.records(arguments["run"]) / "plan.json"
    if there := records.read_if_there(path):
        return {"plan": there, "created": False}
    _hold(layout, run, arguments["plan"])
    plan, created = records.write_once(path, arguments["plan"])
    if not created and _source(plan) != _source(arguments["plan"]):
        _hold(layout, run, plan)
    return {"plan": plan, "created": created}


def _source(plan: dict[str, Any]) -> dict[str, Any] | None:
    source: dict[str, Any] | None = plan.get("resolved", {}).get("source")
    return source


def _hold(layout: Layout, run: str, plan: dict[str, Any]) -> None:
    """Hold the source of a plan; one that is held under this name for a plan that never came is let go."""
    source = _source(plan)
    held = records.read_if_there(layout.records(run) / holds.RECORD)
    if held is not None and (source is None or held["source"] != source["path"]):
        holds.release(layout, {"fork": run})
    if source is not None:
        asked: dict[str, Any] = {key: source[key] for key in ("fingerprint", "mode") if key in source}
        holds.make(layout, {"fork": run, "source": source["path"], **asked})


def end(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Write down how an attempt ended, unless somebody has.

    Args:
        arguments: {"run": id, "attempt": number, "end": {"state", "cause", "reason", …}}.

    Raises:
        NotThereError: the run is on record no more: nothing is written into a directory that is another by now.
    """
    run = arguments["run"]
    if not _is_on_record(layout, run):
        raise NotThereError(f"Run {run!r} is no longer on record on this volume.", GONE)
    path = attempts_of(layout, run) / f"{int(arguments['attempt'])}.end.json"
    written, created = records.write_once(path, arguments["end"] | {"metrics": _summary(layout, run)})
    return {"end": written, "created": created}


def rendered(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """{"attempts": {number: {"name", "text", "programs"}}}: the config that each attempt of a run was given.

    Args:
        arguments: {"run": id}.
    """
    folder = attempts_of(layout, arguments["run"])
    found = {path.name.partition(".")[0]: path for path in _files(folder) if path.name.endswith(".config.json")}
    return {"attempts": {number: records.read_record(path) for number, path in sorted(found.items())}}


def _summary(layout: Layout, run: str) -> dict[str, Any] | None:
    """What a run's metrics come to when an attempt ends: kept where its files are deleted later."""
    plan = records.read_if_there(layout.records(run) / "plan.json") or {}
    if "metrics" not in plan.get("trainer", {}):
        return None
    rows, _ = read_metrics(layout.run(run) / plan["trainer"]["metrics"])
    losses = {row["step"]: row["loss"] for row in by_step(rows).values() if row.get("loss") is not None}
    if not rows:
        return None
    lowest = min(losses, key=lambda step: losses[step], default=None)
    return {
        "last_step": max(row["step"] for row in rows),
        "first_loss": losses[min(losses)] if losses else None,
        "last_loss": losses[max(losses)] if losses else None,
        "lowest_loss": losses[lowest] if lowest is not None else None,
        "lowest_loss_step": lowest,
    }


def show(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Everything on record of one run: {"run", "plan", "attempts", "metrics", "deleted_at", "followed_at"}; "plan" is
    null if there is none, "deleted_at" unless the run was deleted, "followed_at" if nobody ever did.

    Args:
        arguments: {"run": id}.
    """
    run = arguments["run"]
    plan = records.read_if_there(layout.records(run) / "plan.json", PLAN)
    if plan is None:
        return {"run": run, "plan": None, "attempts": [], "metrics": None, "deleted_at": None, "followed_at": None}
    metrics = layout.run(run) / plan["trainer"]["metrics"]
    return {
        "run": run,
        "plan": plan,
        "attempts": read_attempts(layout, run),
        "metrics": last_metrics(metrics),
        "deleted_at": (records.read_if_there(deleted_record(layout, run)) or {}).get("deleted_at"),
        "followed_at": _followed_at(layout, run),
    }


def followed(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Note that somebody follows these runs now: what nobody has followed for a while, reconcile takes up.

    Args:
        arguments: {"runs": ids}.
    """
    for run in arguments["runs"]:
        if not _is_on_record(layout, run):
            continue
        with contextlib.suppress(OSError):  # a full disk: then it is taken up once more, which does no harm
            records.replace(layout.records(run) / _FOLLOWED, {"at": now()})
    return {}


def _followed_at(layout: Layout, run: str) -> str | None:
    try:
        return (records.read_if_there(layout.records(run) / _FOLLOWED) or {}).get("at")
    except ChangedError:  # it is only a hint
        return None


def list_runs(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """{"runs": what `show` says of each that was not deleted, oldest plan first, "damaged": {run: what is wrong}}."""
    folder = layout.ours / "runs"
    names = sorted(p.parent.name for p in folder.glob("*/plan.json")) if folder.is_dir() else []
    runs, damaged = [], {}
    for name in names:
        if not is_deleted(layout, name):
            try:
                runs.append(show(layout, {"run": name}))
            except ChangedError as error:
                damaged[name] = str(error)
    return {"runs": sorted(runs, key=lambda r: (r["plan"]["created_at"], r["run"])), "damaged": damaged}


def _is_on_record(layout: Layout, run: str) -> bool:
    return (layout.records(run) / "plan.json").exists()


def read_plan(layout: Layout, run: str) -> dict[str, Any]:
    """Raises: NotThereError, naming the runs there are."""
    plan = records.read_if_there(layout.records(run) / "plan.json", PLAN)
    if plan is None:
        raise no_such_run(run, [r["run"] for r in list_runs(layout, {})["runs"]])
    return plan


def no_such_run(run: str, there: Collection[str]) -> NotThereError:
    near, known = nearest(run, there), ", ".join(sorted(there)[:8]) + (" …" if len(there) > 8 else "")
    hint = f"Did you mean {near!r}?" if near else f"Runs there are: {known or 'none yet'}."
    return NotThereError(f"There is no run {run!r} on this volume.", hint)


def read_attempts(layout: Layout, run: str) -> list[dict[str, Any]]:
    """The attempts of a run in order, with `started` (its init command ran), `weights` (what that copied) and `end`.

    Raises:
        ChangedError: a record of one is damaged, or gone: what ran, or runs, can not be told any more.
    """
    folder = attempts_of(layout, run)
    numbers = sorted(int(m[1]) for p in _files(folder) if (m := _ATTEMPT.fullmatch(p.name)))
    if missing := sorted(set(range(1, len(numbers) + 1)) - set(numbers)):
        raise ChangedError(
            f"Attempt {missing[0]} of run {run!r} is no longer on record, and attempt {numbers[-1]} is.",
            f"Restore {folder / f'{missing[0]}.json'} from a backup of the volume.",
        )
    return [
        {
            **records.read_record(folder / f"{n}.json", _ATTEMPT_RECORD),
            "started": (folder / f"{n}.started.json").exists(),
            **begun(layout, run, n),
            "end": records.read_if_there(folder / f"{n}.end.json"),
        }
        for n in numbers
    ]


def begun(layout: Layout, run: str, attempt: int) -> dict[str, Any]:
    """ "started_at" and "weights" of an attempt: when its init command began, and what it copied; null until then."""
    folder = attempts_of(layout, run)
    return {
        "started_at": (records.read_if_there(folder / f"{attempt}.started.json") or {}).get("started_at"),
        "weights": records.read_if_there(folder / f"{attempt}.weights.json"),
    }


def is_deleted(layout: Layout, run: str) -> bool:
    """Whether a run is on record only for those that were forked from it."""
    return deleted_record(layout, run).exists()


def deleted_record(layout: Layout, run: str) -> Path:
    """Written before a run's files go; the name is never used again."""
    return layout.records(run) / "deleted.json"


def released_record(layout: Layout, run: str) -> Path:
    """Written before a fork lets go of its source: from then on it goes on from its own checkpoints only."""
    return layout.records(run) / "released.json"


@contextlib.contextmanager
def turn(layout: Layout, run: str) -> Iterator[None]:
    """One at a time for what decides about a run: a second flow must not clear away what the first one's job is writing
    already, nor a run be deleted while an attempt is prepared."""
    with (layout.records(run) / "prepare.lock").open("a") as lock:
        with contextlib.suppress(OSError):  # a file system without locks: the records still decide
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def attempts_of(layout: Layout, run: str) -> Path:
    return layout.records(run) / "attempts"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []
