"""Checkpoints of Lightning: one torch file, or with a sharding strategy a directory, that is called `*.ckpt`.

The writers: lightning/fabric/utilities/cloud_io.py, lightning/pytorch/strategies/fsdp.py and deepspeed.py
"""

from typing import Any

from tasks.pod.checkpoints import archive, dcp, deepspeed, inert
from tasks.pod.checkpoints.evidence import not_newer, plural
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree

_META = "meta.pt"


def _recognises(tree: Tree) -> bool:
    if tree.single:
        return tree.single.endswith(".ckpt")
    return tree.root.name.endswith(".ckpt") or (tree.has(_META) and dcp.is_one(tree))


def _judge(step: Step) -> Finding:
    tree = step.tree
    if tree.single:
        state = archive.check(tree, tree.single, step.deep).pickle(tree)
        number, resumable = _read(state)
        _check_step(step, number, tree.single)
        why = "the whole file" if resumable else "the whole file: weights only, without an optimizer"
        return Finding(why, resumable, step=number)
    if "checkpoint" in tree.directories:
        return _judge_deepspeed(step)
    parts = dcp.check(tree, step.deep)
    state = archive.check(tree, _META, step.deep).pickle(tree)
    number, _ = _read(state)
    _check_step(step, number, _META)
    not_newer(tree, _META, (*parts.files, dcp.METADATA))
    return Finding(f"{parts}, and {_META}", True, step=number, world_size=parts.ranks)


def _judge_deepspeed(step: Step) -> Finding:
    parts = deepspeed.check(step.tree.within("checkpoint"), step.deep)
    if step.tree.read("latest", 0, 64).strip() != b"checkpoint" if step.tree.need("latest") else True:
        raise TornError("`latest` does not name the directory `checkpoint`")
    not_newer(step.tree, "latest", [f"checkpoint/{name}" for name in parts.files])
    why = f"the files of all {plural(parts.ranks, 'rank')}"
    return Finding(why, parts.resumable, format="lightning+deepspeed", world_size=parts.ranks)


def _read(state: Any) -> tuple[int | None, bool]:
    """The step, and whether the optimizer's state is there."""
    if not isinstance(state, inert.Pairs):
        raise UnclearError("it is a torch file, but not one of Lightning's")
    number = state.get("global_step")
    if not isinstance(number, int) and state.get("state_dict") is None:
        raise UnclearError("it is a torch file, but not one of Lightning's")
    return number if isinstance(number, int) else None, bool(state.get("optimizer_states"))


def _check_step(step: Step, number: int | None, where: str) -> None:
    if number is not None and step.number is not None and number != step.number:
        raise UnclearError(f"{where} says global_step {number}, the name says {step.number}")


FORMAT = Format("lightning", _recognises, _judge)
