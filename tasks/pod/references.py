"""Who needs what on a volume: the checkpoints that forks hold or are about to read, the weights and data of runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tasks.pod import holds, records
from tasks.pod.layout import Layout
from tasks.pod.runs import PLAN, is_deleted, read_attempts


@dataclass(frozen=True)
class Needs:
    """What must stay. Paths are relative to the volume.

    Args:
        checkpoints: step directory → why it is needed, by whom.
        inputs: directories of weights and datasets that a run on record reads.
    """

    checkpoints: dict[str, str]
    inputs: frozenset[str]

    def reads(self, path: str) -> bool:
        """Whether a run reads a directory, a part of it, or one that it is a part of."""
        return any(path == read or path.startswith(f"{read}/") or read.startswith(f"{path}/") for read in self.inputs)


def needed(layout: Layout) -> Needs:
    """Read every run's records anew."""
    checkpoints = {path: f"held by {', '.join(forks)}" for path, forks in holds.holders(layout).items()}
    inputs: set[str] = set()
    for plan in plans(layout):
        run, resolved = plan["run"], plan["resolved"]
        inputs.update(found["path"] for what in ("weights", "dataset") if (found := resolved.get(what)))
        attempts = read_attempts(layout, run)
        live = attempts[-1]["resume"] if attempts and attempts[-1]["end"] is None else None
        if _reads_source(plan, attempts):
            checkpoints.setdefault(resolved["source"]["path"], f"{run} is to continue from it")
        if live and live["path"]:
            checkpoints.setdefault(live["path"], f"the live attempt of {run} continues from it")
    return Needs(checkpoints, frozenset(inputs))


def plans(layout: Layout) -> Iterator[dict[str, Any]]:
    """The plans of all runs that were not deleted, by name.

    Raises:
        ChangedError: a plan is damaged: nobody can say what that run needs.
    """
    for path in sorted((layout.ours / "runs").glob("*/plan.json")):
        if not is_deleted(layout, path.parent.name):
            yield records.read_record(path, PLAN)


def users_of(layout: Layout, run: str) -> list[str]:
    """The forks that hold a checkpoint of a run, or are about to."""
    users = {fork for path, forks in holds.holders(layout).items() if _is_of(path, run) for fork in forks}
    for plan in plans(layout):
        attempts = read_attempts(layout, plan["run"])
        if _reads_source(plan, attempts) and _is_of(plan["resolved"]["source"]["path"], run):
            users.add(plan["run"])
    return sorted(users - {run})


def _reads_source(plan: dict[str, Any], attempts: list[dict[str, Any]]) -> bool:
    """Whether a fork is planned, or live and not past its source: it may not hold it yet."""
    if not plan["resolved"].get("source"):
        return False
    return not attempts or (attempts[-1]["end"] is None and attempts[-1]["resume"]["kind"] != "own")


def _is_of(path: str, run: str) -> bool:
    return path.startswith(f"runs/{run}/")
