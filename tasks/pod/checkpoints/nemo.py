"""Checkpoints of NeMo 2: Megatron's in `weights/`, and `context/`. A file `<name>-unfinished` beside the directory says
that it is being written or deleted; it can get stuck.

The writer: nemo/lightning/pytorch/callbacks/model_checkpoint.py
"""

from tasks.pod.checkpoints import archive, dcp, megatron
from tasks.pod.checkpoints.evidence import not_newer
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree

_WEIGHTS = "weights"
_CONTEXT = "context"


def _recognises(tree: Tree) -> bool:
    return _WEIGHTS in tree.directories and (
        _CONTEXT in tree.directories or dcp.is_one(tree.within(_WEIGHTS)) or tree.has(f"{_WEIGHTS}/{megatron.MARKER}")
    )


def _judge(step: Step) -> Finding:
    inside = step.within(_WEIGHTS).tree
    parts = dcp.check(inside, step.deep)
    inside.need(megatron.MARKER)
    megatron.check_backend(inside)
    if inside.has("common.pt"):
        archive.check(inside, "common.pt", step.deep)
    context = [name for name in step.tree.files if name.startswith(f"{_CONTEXT}/")]
    if not context:
        raise TornError(f"{_CONTEXT}/ is missing or empty")
    for name in context:
        if name.endswith((".yaml", ".json")) and not step.tree.files[name].size:
            raise TornError(f"{name} has 0 bytes")
    not_newer(inside, megatron.MARKER, [*parts.files, dcp.METADATA])
    beside = step.tree.root.with_name(f"{step.tree.root.name}-unfinished")
    if beside.exists():
        raise UnclearError(f"{beside.name} is there: it is being written or deleted, or a finished save left the mark")
    return Finding(f"{parts} in {_WEIGHTS}/, and {_CONTEXT}/", True, world_size=parts.ranks)


FORMAT = Format("nemo", _recognises, _judge)
