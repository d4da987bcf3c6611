"""Checkpoints of prime-rl: a distributed checkpoint in `trainer/`; for SFT each rank's data loader inside it, for RL
`orchestrator/progress.pt`, which another process writes at another time.

The writers: src/prime_rl/trainer/ckpt.py, src/prime_rl/orchestrator/ckpt.py
"""

import re

from tasks.pod.checkpoints import archive, dcp, inert, ranks
from tasks.pod.checkpoints.evidence import not_newer, plural
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree

_TRAINER = "trainer"
_PROGRESS = "orchestrator/progress.pt"
_LOADERS = f"{_TRAINER}/dataloader"
_LOADER = re.compile(rf"{_LOADERS}/rank_([0-9]{{1,7}})\.pt")


def _is_rl(tree: Tree) -> bool:
    return "orchestrator" in tree.directories and not ranks.numbers(tree, _LOADER)


def _is_sft(tree: Tree) -> bool:
    return _LOADERS in tree.directories and "orchestrator" not in tree.directories


def _is_either(tree: Tree) -> bool:
    return _TRAINER in tree.directories and (dcp.is_one(tree.within(_TRAINER)) or not tree.files)


def _judge(step: Step) -> Finding:
    """Find out which of both it is; without a sign of either, the steps beside it tell."""
    tree, siblings = step.tree, step.siblings()
    if _is_rl(tree) or any(other.has(_PROGRESS) for other in siblings):
        return _judge_rl(step)
    if _is_sft(tree) or any(_is_sft(other) for other in siblings):
        return _judge_sft(step)
    dcp.check(tree.within(_TRAINER), step.deep)
    raise UnclearError(f"{_TRAINER}/ is whole, and nothing tells whether {_PROGRESS} (RL) is still to come")


def _judge_rl(step: Step) -> Finding:
    parts = dcp.check(step.tree.within(_TRAINER), step.deep)
    step.tree.need(_PROGRESS, "is missing: the orchestrator has not saved this step")
    progress = archive.check(step.tree, _PROGRESS, step.deep).pickle(step.tree)
    number = progress.get("step") if isinstance(progress, inert.Pairs | inert.Thing) else None
    if isinstance(number, int) and step.number is not None and number != step.number:
        raise UnclearError(f"{_PROGRESS} says step {number}, the directory says {step.number}")
    return Finding(f"{parts} in {_TRAINER}/, and {_PROGRESS}", True, format="prime-rl-rl", world_size=parts.ranks)


def _judge_sft(step: Step) -> Finding:
    trainer = step.tree.within(_TRAINER)
    if not dcp.is_one(trainer):
        raise TornError(f"{_TRAINER}/ has no distributed checkpoint yet")
    parts = dcp.check(trainer, step.deep)
    loaders = ranks.numbers(step.tree, _LOADER)
    count = ranks.check(loaders, "the data loader's state", parts.ranks)
    for name in loaders.values():
        archive.check(step.tree, name, step.deep)
    not_newer(step.tree, f"{_TRAINER}/{dcp.METADATA}", loaders.values())
    return Finding(
        f"{parts} in {_TRAINER}/, and the data loaders of all {plural(count, 'rank')}",
        True,
        format="prime-rl-sft",
        world_size=count,
    )


RL = Format("prime-rl-rl", _is_rl, _judge_rl)
SFT = Format("prime-rl-sft", _is_sft, _judge_sft)
FORMAT = Format("prime-rl", _is_either, _judge)
