"""Once before every attempt, beside the data: decides where training goes on, clears the way, writes it down."""

import os
from pathlib import Path
from typing import Any

from tasks.pod import holds, records, reserve
from tasks.pod.checkpoints.elsewhere import elsewhere, is_elsewhere, leads_out
from tasks.pod.checkpoints.find import find
from tasks.pod.checkpoints.verdict import Checkpoint, Report, Verdict
from tasks.pod.errors import ChangedError, NotThereError, PodError
from tasks.pod.layout import Layout
from tasks.pod.runs import attempts_of, begun, end, is_deleted, now, read_attempts, read_plan, released_record, turn
from tasks.pod.weights import fingerprint


def prepare(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Write down attempt `attempt` of a run and return it; one that is on record is returned as it is.

    Training goes on from the newest complete checkpoint of the run itself, else from the source that it holds, else
    from the base weights. Torn step directories are moved to where no trainer looks.

    Args:
        arguments: {"run": id, "attempt": number, "job": name of its job, "version": of Slipway,
            "trust": paths of `unknown` checkpoints (relative to the run, or `runs/<run>/…`) that a person has vouched
            for, "taken_back": whether the attempt before was taken back by its queue after it had begun, which is its
            end: it is written down with this one (optional)}.

    Raises:
        ChangedError: the run's held source has other bytes than when it was chosen, its weights were changed since the
            plan, an earlier attempt has no recorded end, a newer checkpoint is neither provably complete nor
            incomplete, or there are complete ones and training can go on from none of them.
        NotThereError: the weights or the dataset are gone.
    """
    reserve.keep(layout)  # so that the attempt's end can be written down whatever it does to the volume
    run, number = arguments["run"], int(arguments["attempt"])
    trust = {path.removeprefix(f"runs/{run}/") for path in arguments.get("trust") or ()}
    plan = read_plan(layout, run)
    with turn(layout, run):
        path = attempts_of(layout, run) / f"{number}.json"
        if there := records.read_if_there(path):
            return {"attempt": there, "created": False}
        return _prepare(layout, plan, number, arguments, trust)


def _prepare(
    layout: Layout, plan: dict[str, Any], number: int, arguments: dict[str, Any], trust: set[str]
) -> dict[str, Any]:
    run, path = plan["run"], attempts_of(layout, plan["run"]) / f"{number}.json"
    if is_deleted(layout, run):
        raise ChangedError(f"Run {run!r} was deleted.", "Choose another name.")
    taken_back = arguments.get("taken_back", False)
    _check_order(layout, run, number, taken_back=taken_back)
    _check_inputs(layout, plan)
    home = layout.real_run(run)
    home.mkdir(parents=True, exist_ok=True)
    own = find(home, format=plan["trainer"]["checkpoint_format"], home=home)
    _check_where(run, home, plan["trainer"]["checkpoints"], own)
    resume = _choose(layout, run, plan, own, trust)
    moved = _clear(layout, run, number, own, fresh=resume["kind"] != "own")
    if taken_back:  # not before: what is refused above leaves it open, for the reason to become its end
        _end_taken_back(layout, run, number - 1)
    nothing_left = plan["max_steps"] is not None and resume["step"] >= plan["max_steps"]
    attempt, created = records.write_once(
        path,
        {
            "run": run,
            "attempt": number,
            "job": None if nothing_left else arguments["job"],
            "resume": resume,
            "trusted": sorted(trust & {c.path for c in own.checkpoints if c.verdict is Verdict.UNKNOWN}),
            "set_aside": moved,
            "preferred_nodes": _preferred_nodes(layout, plan),
            "version": arguments.get("version"),
            "created_at": now(),
        },
    )
    if nothing_left:  # the last checkpoint was saved before an earlier attempt died
        end(layout, {"run": run, "attempt": number, "end": _completed_before(resume["step"])})
    return {"attempt": attempt, "created": created}


def _preferred_nodes(layout: Layout, plan: dict[str, Any]) -> list[str]:
    from tasks.pod.hydrate import preferred_nodes  # takes its time to import, and few ask

    try:
        return preferred_nodes(layout, plan)
    except (PodError, OSError):
        return []


def _completed_before(step: int) -> dict[str, Any]:
    reason = f"step {step}, the last one, was saved completely by an earlier attempt"
    return {
        "state": "completed",
        "cause": "completed",
        "reason": reason,
        "ended_at": now(),
        "exit_code": None,
    }


def _end_taken_back(layout: Layout, run: str, number: int) -> None:
    """When its pod ended is not known here: nobody may have looked."""
    reason = f"its queue took it back after it had begun; the run went on as attempt {number + 1}"
    begun_at = begun(layout, run, number)["started_at"]
    end(
        layout,
        {
            "run": run,
            "attempt": number,
            "end": {"state": "failed", "cause": "evicted", "reason": reason, "started_at": begun_at},
        },
    )


def _check_order(layout: Layout, run: str, number: int, *, taken_back: bool) -> None:
    earlier = read_attempts(layout, run)
    closed = earlier[:-1] if taken_back else earlier
    if len(earlier) != number - 1 or any(a["end"] is None for a in closed):
        raise ChangedError(
            f"Run {run!r} can not start attempt {number}: it has {len(earlier)} on record, and each must have ended.",
            "Look at it with `slipway runs show`, then ask again.",
        )


def _check_inputs(layout: Layout, plan: dict[str, Any]) -> None:
    for what in ("weights", "dataset"):
        found = plan["resolved"].get(what)
        if found and not layout.resolve(found["path"]).is_dir():
            raise NotThereError(
                f"The {what} of run {plan['run']!r} are no longer on the volume at {found['path']}.",
                "Stage them again: the same request does it.",
            )
    weights = plan["resolved"].get("weights") or {}
    planned = weights.get("fingerprint")
    if planned and planned != fingerprint(layout.resolve(weights["path"])):
        raise ChangedError(
            f"The weights at {weights['path']} are others than those that run {plan['run']!r} was planned with.",
            "Put the earlier ones back, with their times, or ask for a new run.",
        )


def _check_where(run: str, home: Path, checkpoints: str, own: Report) -> None:
    """Raises: ChangedError if the run's newest checkpoints are elsewhere: it would go on from an older state."""
    away = [c for c in own.checkpoints if is_elsewhere(c.why)]
    newest = max((_step(c) for c in own.checkpoints if c.complete), default=-1)
    newer = [c for c in away if _step(c) > newest]
    if leads_out(home / checkpoints, home):
        newer = [elsewhere(home / checkpoints, checkpoints, None)]
    if newer:
        raise ChangedError(
            f"Run {run!r} can not be continued: {newer[-1].path}: {newer[-1].why}.",
            "Put what it leads to in the link's place; or remove the link, to go on without it.",
        )


def _choose(layout: Layout, run: str, plan: dict[str, Any], own: Report, trust: set[str]) -> dict[str, Any]:
    newest = max((c for c in own.checkpoints if _usable(c, trust)), key=_step, default=None)
    for checkpoint in own.checkpoints:
        doubtful = checkpoint.verdict is Verdict.UNKNOWN and checkpoint.path not in trust
        if doubtful and (newest is None or _step(checkpoint) > _step(newest)):
            raise ChangedError(
                f"Run {run!r} has a newer checkpoint that can not be proven: {checkpoint.path} ({checkpoint.why}).",
                f"Say `--trust {checkpoint.path}` to take it, or move it away.",
            )
    if newest is None:
        _refuse_to_begin_again(run, own, trust)
    else:
        return {
            "kind": "own",
            "path": f"{layout.relative(layout.run(run))}/{newest.path}",
            "step": newest.step,
            "fingerprint": newest.fingerprint,
        }
    if source := plan["resolved"].get("source"):
        if released_record(layout, run).exists():
            raise NotThereError(
                f"Run {run!r} released step {source['step']}, which it began from, and has no complete checkpoint now.",
                f"Fork {source['run'] or source['path']} again, under another name.",
            )
        holds.verify(layout, run, source["fingerprint"])
        return {
            "kind": "hold",
            "path": source["hold"],
            "step": source["step"],
            "fingerprint": source["fingerprint"],
        }
    return {"kind": "base", "path": None, "step": 0, "fingerprint": None}


def _refuse_to_begin_again(run: str, own: Report, trust: set[str]) -> None:
    """Raises: ChangedError if there is a complete checkpoint that would be trained over from an earlier state."""
    complete = [c for c in own.checkpoints if c.complete or c.path in trust]
    if complete:
        lacks = "tells no step" if complete[-1].resumable else "holds weights only"
        weights = f"/volume/runs/{run}/{complete[-1].path}"
        raise ChangedError(
            f"Run {run!r} can not be continued: its newest checkpoint {complete[-1].path} {lacks}.",
            f"Train on from its weights in a new run, with {weights} as its model, or begin again under another name.",
        )


def _clear(layout: Layout, run: str, number: int, own: Report, *, fresh: bool) -> list[dict[str, str]]:
    """Move torn steps (and, where nothing of an earlier attempt is continued, all it left) out of the trainer's way."""
    home = layout.run(run)
    if fresh:
        leftovers = [(p, "left by an attempt that saved no complete checkpoint") for p in sorted(home.iterdir())]
    else:
        torn = [c for c in own.checkpoints if c.verdict is Verdict.INCOMPLETE]
        leftovers = [(home / c.path, c.why) for c in torn if c.path != "."]
    moved = []
    for path, why in leftovers:
        target = _free(layout.records(run) / "torn" / str(number) / path.relative_to(home))
        _move(path, target)
        moved.append({"path": path.relative_to(home).as_posix(), "to": layout.relative(target), "why": why})
    return moved


def _move(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)


def _free(target: Path) -> Path:
    """The name, or one beside it where a call that was killed has moved something there already."""
    names = [target, *(target.with_name(f"{target.name}.{n}") for n in range(2, 1000))]
    return next(name for name in names if not os.path.lexists(name))


def _usable(checkpoint: Checkpoint, trust: set[str]) -> bool:
    trusted = checkpoint.verdict is Verdict.UNKNOWN and checkpoint.path in trust
    return (checkpoint.complete or trusted) and checkpoint.resumable and checkpoint.step is not None


def _step(checkpoint: Checkpoint) -> int:
    return -1 if checkpoint.step is None else checkpoint.step
