"""Checkpoints that are a bare torch distributed checkpoint, as torchtitan and many training loops write them."""

import re

from tasks.pod.checkpoints import dcp, ranks
from tasks.pod.checkpoints.faults import UnclearError
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree

_OF_A_RANK = re.compile(r"[0-9]|^\.")
_TORCHTITAN = re.compile(r"step-[0-9]+")


def _is_torchtitan(tree: Tree) -> bool:
    return bool(_TORCHTITAN.fullmatch(tree.root.name)) and (dcp.is_one(tree) or "metadata.pkl" in tree.files)


def _judge(step: Step) -> Finding:
    if dcp.METADATA not in step.tree.files and "metadata.pkl" in step.tree.files:
        raise UnclearError("torchtitan's newer layout with metadata.pkl, which is not known well enough to be judged")
    parts = dcp.check(step.tree, step.deep)
    _check_beside(step)
    return Finding(str(parts), True, world_size=parts.ranks)


def _check_beside(step: Step) -> None:
    """What else a training loop writes into each step is not known, but the steps beside it show it."""
    siblings = step.siblings()
    if siblings:
        common = set.intersection(
            *({name for name in other.top() if not _OF_A_RANK.search(name)} for other in siblings)
        )
        ranks.as_beside(step.tree, siblings, sorted(common))


TORCHTITAN = Format("torchtitan", _is_torchtitan, _judge)
FORMAT = Format("torch-dcp", dcp.is_one, _judge)
