"""Checkpoints of torchtune: weights or an adapter in `epoch_<E>` or `step_<S>`, then, in the middle of training,
`recipe_state.pt`. The last save has none, so that its absence settles nothing.

The writer: torchtune/training/checkpointing/_checkpointer.py
"""

import re

from tasks.pod.checkpoints import archive, weights
from tasks.pod.checkpoints.evidence import not_newer
from tasks.pod.checkpoints.faults import UnclearError
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree

_EPOCH = re.compile(r"epoch_[0-9]+")
_STATE = ("recipe_state.pt", "recipe_state/recipe_state.pt")


def _recognises(tree: Tree) -> bool:
    if any(tree.has(name) for name in _STATE):
        return True
    return bool(_EPOCH.fullmatch(tree.root.name)) and bool(weights.names(tree) or tree.has("consolidated.00.pth"))


def _judge(step: Step) -> Finding:
    tree = step.tree
    named = weights.names(tree) or [name for name in tree.top() if re.fullmatch(r"consolidated\.[0-9]{2}\.pth", name)]
    if weights.names(tree):
        weights.check(tree, step.deep)
    else:
        for name in named or ["consolidated.00.pth"]:
            archive.check(tree, name, step.deep)
    state = next((name for name in _STATE if tree.has(name)), None)
    if state is None:
        raise UnclearError("recipe_state.pt is missing: it is the run's last save, or one that was interrupted")
    archive.check(tree, state, step.deep)
    not_newer(tree, state, named)
    return Finding(f"weights and {state}, which is written last", True)


FORMAT = Format("torchtune", _recognises, _judge)
