"""Finds the checkpoint that a fork continues from, and refuses every one that is not proven."""

import re
from collections.abc import Collection
from typing import Any

from blocks.clusters.port import Cluster
from blocks.clusters.size import format_size
from tasks.plans.inputs import Add
from tasks.plans.plan import Blocked, Mark
from tasks.pod.checkpoints.elsewhere import is_elsewhere
from tasks.pod.layout import volume_relative
from tasks.pod.trainers.adapter import Needs
from tasks.runs.launch import checkpoints, read_run
from tasks.runs.records import Source
from tasks.runs.request import ForkOf, RunRequest

_RUN_PATH = re.compile(r"runs/(?P<run>[^/]+)/(?P<path>.+)")


def find_source(cluster: Cluster, volume: str | None, request: RunRequest, needs: Needs, add: Add) -> Source | None:
    """The proven checkpoint that a run continues from; None for a run from base weights.

    Raises:
        Blocked: no such step, one that is not complete (with the newest that is), or nothing left to train after it.
    """
    fork, path = request.fork_of, needs.resume
    parent: str | None
    if fork is None and path is None:
        return None
    if fork is not None and path is not None:
        raise Blocked("config resume.dir", "is set, and a fork was asked for too.", "Say one of the two.")
    if volume is None:
        raise Blocked("checkpoint", "is on a volume that does not exist yet.", "Name the volume that has it.")
    if fork is not None:
        found, parent, prefix = _of_run(cluster, volume, fork, request.trust), fork.run, f"runs/{fork.run}/"
    else:
        assert path is not None
        match = _RUN_PATH.fullmatch(volume_relative(path))
        parent, prefix = (match["run"] if match else None), ""
        found = _at_path(cluster, volume, volume_relative(path), request.trust)
    _check_steps(found["step"], needs)
    _check_ranks(found, request)
    _check_schedule(cluster, volume, parent, needs, add)
    held = "as a copy" if fork and fork.hold == "copy" else "by links"
    what = f"step {found['step']} of {parent or found['path']}, {found['format']}, {format_size(found['bytes'])}"
    vouched = found["why"] if found["verdict"] == "unknown" else None
    if vouched:
        add(Mark.WARNING, "checkpoint", f"{what}, held {held}; it is not proven ({vouched}), and taken on trust.")
    else:
        add(Mark.READY, "checkpoint", f"{what}, held {held}")
    return Source(
        run=parent,
        path=prefix + found["path"],
        step=found["step"],
        fingerprint=found["fingerprint"],
        hold=f"holds/{request.run}/{found['path'].rsplit('/', 1)[-1]}",
        mode=fork.hold if fork else "link",
        trusted=vouched,
    )


def choose(
    found: list[dict[str, Any]],
    run: str,
    step: int | str,
    trust: Collection[str] = (),
    *,
    weights_will_do: bool = False,
) -> dict[str, Any]:
    """The checkpoint that "latest" or a step means.

    Args:
        found: a report's checkpoints, oldest step first.
        trust: paths of `unknown` ones that count as complete.
        weights_will_do: it is not to be continued from.

    Raises:
        Blocked: there is none, or it is not complete.
    """
    usable = [c for c in found if (c["resumable"] or weights_will_do) and c["step"] is not None]
    good = [c for c in usable if _taken(c, run, trust)]
    newest = f"The newest complete one is step {good[-1]['step']}." if good else "No step of it is complete."
    if step == "latest":
        if not good:
            seen = "; ".join(f"{c['path']}: {c['why']}" for c in found) or "it has saved none"
            raise Blocked("checkpoint", f"run {run} has no complete checkpoint ({seen}).", "Let it save one first.")
        newer = [c for c in found if c["verdict"] == "unknown" and (c["step"] or 0) > good[-1]["step"]]
        if newer:
            detail = f"run {run} has a newer step that can not be proven: {newer[-1]['path']} ({newer[-1]['why']})."
            vouch = "" if is_elsewhere(newer[-1]["why"]) else f", or --trust {newer[-1]['path']}"
            remedy = f"Say which to take: step {good[-1]['step']} is complete{vouch}."
            raise Blocked("checkpoint", detail, remedy)
        return good[-1]
    named = [c for c in found if c["step"] == step]
    if not named:
        raise Blocked("checkpoint", f"run {run} has no step {step}.", newest)
    chosen = next((c for c in named if c in good), named[-1])
    if not _taken(chosen, run, trust):
        open_ = chosen["verdict"] == "unknown" and not is_elsewhere(chosen["why"])
        remedy = f"{newest} Or say --trust {chosen['path']}." if open_ else newest
        raise Blocked("checkpoint", f"step {step} of run {run} is {chosen['verdict']}: {chosen['why']}.", remedy)
    if chosen not in good:
        raise Blocked("checkpoint", f"step {step} of run {run} holds weights only.", newest)
    return chosen


def _taken(checkpoint: dict[str, Any], run: str, trust: Collection[str]) -> bool:
    if is_elsewhere(checkpoint["why"]):
        return False  # nobody can vouch for what the run does not have
    if checkpoint["verdict"] == "unknown":
        return checkpoint["path"] in trust or f"runs/{run}/{checkpoint['path']}" in trust
    return bool(checkpoint["verdict"] == "complete")


def _of_run(cluster: Cluster, volume: str, fork: ForkOf, trust: Collection[str]) -> dict[str, Any]:
    record = read_run(cluster, volume, fork.run)
    if record.deleted_at is not None:
        raise Blocked("checkpoint", f"run {fork.run} was deleted on {record.deleted_at:%Y-%m-%d}.", "Fork another run.")
    return choose(checkpoints(cluster, record.plan), fork.run, fork.step, trust)


def _at_path(cluster: Cluster, volume: str, path: str, trust: Collection[str]) -> dict[str, Any]:
    (report,) = cluster.call(volume, "checkpoints.look", {"path": path})["reports"].values()
    steps = [c for c in report["checkpoints"] if c["path"] == "." or path.endswith(c["path"])]
    if not steps:
        raise Blocked("config resume.dir", f"/volume/{path} is no checkpoint.", "Name a step directory.")
    found: dict[str, Any] = steps[0]
    if found["verdict"] != "complete" and not (found["verdict"] == "unknown" and {path, found["path"]} & set(trust)):
        remedy = f"Name another step, or say --trust {path}." if found["verdict"] == "unknown" else "Name another step."
        raise Blocked("config resume.dir", f"/volume/{path} is {found['verdict']}: {found['why']}.", remedy)
    if not found["resumable"] or found["step"] is None:
        raise Blocked("config resume.dir", f"/volume/{path} holds weights only.", "Name them as [model].name.")
    return {**found, "path": path}


def _check_steps(step: int, needs: Needs) -> None:
    if needs.max_steps is not None and needs.max_steps <= step:
        raise Blocked(
            "config max_steps",
            f"is {needs.max_steps}, and the checkpoint is at step {step}: there is nothing left to train.",
            f"max_steps counts from the start of the original training; set it above {step}.",
        )


def _check_ranks(found: dict[str, Any], request: RunRequest) -> None:
    trainer, resources = request.adapter, request.trainer.resources
    saved, asked = found.get("world_size"), trainer.ranks(resources.gpus, resources.nodes)
    if saved is not None and saved != asked and not trainer.reshards(request.config):
        raise Blocked(
            "checkpoint",
            f"{found['path']} was saved by {saved} ranks, and this run would have {asked}; "
            f"{trainer.kind} can not continue it with another number.",
            f"Ask for the GPUs of {saved} ranks.",
        )


def _check_schedule(cluster: Cluster, volume: str, parent: str | None, needs: Needs, add: Add) -> None:
    """A schedule that is taken over keeps its old length: see the trap in docs/checkpoints.md."""
    if parent is None or needs.schedule in (None, "constant"):
        return
    shown = cluster.call(volume, "runs.show", {"run": parent})
    before = shown["plan"]["max_steps"] if shown["plan"] else None
    if before is not None and before != needs.max_steps:
        made = f"{needs.schedule}, taken over from the checkpoint, was made for {before} steps, and max_steps is "
        if needs.max_steps is None or needs.max_steps > before:
            past = f"after step {before} it runs past its end: a cosine climbs back to its peak, a decay stays at zero."
            detail = f"{made}{needs.max_steps or 'not set'} now; {past}"
        else:
            detail = f"{made}{needs.max_steps} now: it is cut off before its end."
        add(Mark.WARNING, "learning rate schedule", detail, needs.schedule_remedy)
