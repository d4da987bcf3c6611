"""Weights or torch files that no trainer's format explains. In a step directory they settle nothing, because a trainer
that is not known may write more; elsewhere, or if the format was named, they are what they are."""

from tasks.pod.checkpoints import archive, weights
from tasks.pod.checkpoints.evidence import plural
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree

_TORCH = (".pt", ".pth", ".bin")


def _has_safetensors(tree: Tree) -> bool:
    return any(name.endswith(".safetensors") for name in tree.top()) or tree.has("model.safetensors.index.json")


def _has_torch(tree: Tree) -> bool:
    return any(name.endswith(_TORCH) for name in tree.top())


def _has_adapter(tree: Tree) -> bool:
    return tree.has(weights.ADAPTER_CONFIG) or any(name.startswith("adapter_model.") for name in tree.top())


def _judge_safetensors(step: Step) -> Finding:
    tree = step.tree
    if weights.names(tree):
        why = weights.check(tree, step.deep).why
    else:
        named = [name for name in tree.top() if name.endswith(".safetensors")]
        if not named:
            raise TornError("there are no safetensors files")
        for name in named:
            weights.check_file(tree, name, step.deep)
        why = plural(len(named), "whole file")
    return _settled(step, why)


def _judge_torch(step: Step) -> Finding:
    tree = step.tree
    named = [name for name in tree.top() if name.endswith(_TORCH)]
    if not named:
        raise TornError("there are no torch files")
    for name in named:
        archive.check(tree, name, step.deep)
    return _settled(step, plural(len(named), "whole file"), any("optim" in name for name in named))


def _settled(step: Step, why: str, resumable: bool = False) -> Finding:
    if step.named and not step.fixed:
        raise UnclearError(f"{why}, but nothing tells whether the trainer writes more")
    return Finding(why if resumable else f"{why}: weights only, without an optimizer", resumable)


ADAPTER = Format("peft", _has_adapter, _judge_safetensors)
SAFETENSORS = Format("safetensors", _has_safetensors, _judge_safetensors)
TORCH = Format("torch", _has_torch, _judge_torch)
