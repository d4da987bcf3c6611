"""The end of a hold, and of a run: what a fork no longer needs is let go of; a run's files go and its records stay,
because the runs that were forked from it refer to them."""

from typing import Any

from tasks.pod import holds, records, references, trash
from tasks.pod.checkpoints.look import look
from tasks.pod.errors import ChangedError, NotThereError
from tasks.pod.layout import Layout
from tasks.pod.runs import deleted_record, now, read_attempts, read_plan, released_record, turn


def release(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Let go of what a fork holds, once it has a newer complete checkpoint of its own to go on from.

    Args:
        layout: the volume, writable.
        arguments: {"run": id}.

    Returns:
        {"released": whether there was a hold, "source", "own": {"path", "step", "fingerprint"}}: what was held, and
        what the run goes on from now.

    Raises:
        NotThereError: no such run, or it is no fork.
        ChangedError: it has no newer complete checkpoint of its own.
    """
    run = arguments["run"]
    plan = read_plan(layout, run)
    source = plan["resolved"].get("source")
    if not source:
        raise NotThereError(f"Run {run!r} is no fork: it holds nothing.", "Nothing has to be released.")
    with turn(layout, run):
        own = _newest_own(layout, plan)
        if own is None or own["step"] <= source["step"]:
            raise ChangedError(
                f"Run {run!r} has no complete checkpoint of its own after step {source['step']}, which it holds.",
                "Let it save one first.",
            )
        kept = {"path": own["path"], "step": own["step"], "fingerprint": own["fingerprint"]}
        records.write_once(released_record(layout, run), {"released_at": now(), "source": source["path"], "own": kept})
        released = holds.release(layout, {"fork": run})["released"]
    return {"released": released, "source": source["path"], "own": kept}


def delete(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Delete a run's files and its hold; its records stay. Killed at any point, the same call finishes it.

    Args:
        layout: the volume, writable.
        arguments: {"run": id}.

    Returns:
        {"run", "freed_bytes", "created": whether this call is the one that deleted it}.

    Raises:
        NotThereError: no such run.
        ChangedError: an attempt of it has no recorded end, or other runs hold its checkpoints, or are about to.
    """
    run = arguments["run"]
    read_plan(layout, run)
    with turn(layout, run):
        attempts = read_attempts(layout, run)
        if attempts and attempts[-1]["end"] is None:
            raise ChangedError(f"Run {run!r} is live.", f"Stop it first: `slipway runs stop {run}`.")
        if users := references.users_of(layout, run):
            raise ChangedError(
                f"Checkpoints of run {run!r} are held by {', '.join(users)}.",
                "Delete these runs first, or let them release what they hold: `slipway runs release`.",
            )
        _, created = records.write_once(deleted_record(layout, run), {"run": run, "deleted_at": now()})
        return {"run": run, "freed_bytes": finish_deleting(layout, run), "created": created}


def finish_deleting(layout: Layout, run: str) -> int:
    """Take away what is left of a run that is on record as deleted; return the bytes that go free."""
    links = trash.Links()
    holds.release(layout, {"fork": run})
    freed = 0
    for path in (layout.run(run), layout.records(run) / "torn"):
        if path.exists():
            freed += links.free(path)
            trash.take_away(layout, path)
    return freed


def _newest_own(layout: Layout, plan: dict[str, Any]) -> dict[str, Any] | None:
    ask = {"format": plan["trainer"]["checkpoint_format"], "checkpoints": plan["trainer"]["checkpoints"]}
    found = look(layout, {"runs": {plan["run"]: ask}})["reports"][plan["run"]]["checkpoints"]
    good = [c for c in found if c["verdict"] == "complete" and c["resumable"] and c["step"] is not None]
    return good[-1] if good else None
