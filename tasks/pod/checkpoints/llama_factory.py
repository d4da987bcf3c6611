"""Checkpoints of LLaMA-Factory's v1 engine: `metadata.json` first, then parts, and the empty file `CHECKPOINT_COMPLETE`
last, which a second save into the directory leaves in place. Its classic engine is the Hugging Face Trainer.

The writer: src/llamafactory/v1/core/utils/checkpoint.py
"""

import re

from tasks.pod.checkpoints import archive, dcp, ranks, safetensors, weights
from tasks.pod.checkpoints.evidence import not_newer, read_json
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree

_MARKER = "CHECKPOINT_COMPLETE"
_LOADER = re.compile(r"dataloader/rank_([0-9]{1,7})\.pt")


def _recognises(tree: Tree) -> bool:
    return tree.has(_MARKER) or (tree.has("metadata.json") and {"model", "optimizer"} & tree.directories != set())


def _judge(step: Step) -> Finding:
    tree = step.tree
    count = None
    for directory in sorted({"", *tree.directories}):
        part = tree.within(directory) if directory else tree
        if dcp.is_one(part):
            count = dcp.check(part, step.deep).ranks
        elif any(name.endswith(".index.json") for name in weights.names(part)):
            weights.check(part, step.deep)
    for name in tree.files:
        if name.endswith(".safetensors"):
            safetensors.check(tree, name, step.deep)
        elif name.endswith((".pt", ".pth", ".bin")):
            archive.check(tree, name, step.deep)
    number = read_json(tree, "metadata.json").get("global_step")
    if not any(name.startswith("model/") for name in tree.files):
        raise TornError("model/ is missing or empty")
    tree.need("scheduler.pt")
    loaders = ranks.numbers(tree, _LOADER)
    if loaders:
        ranks.check(loaders, "the data loader's state", count)
    tree.need(_MARKER, "is missing, which is written last")
    if step.number is not None and number != step.number:
        raise UnclearError(f"metadata.json says global_step {number!r}, the directory says {step.number}")
    not_newer(tree, _MARKER, [name for name in tree.files if name not in (_MARKER, "metadata.json")])
    resumable = any(name.startswith("optimizer/") for name in tree.files)
    return Finding(f"all parts, and {_MARKER} of the same save", resumable, world_size=count)


FORMAT = Format("llama-factory", _recognises, _judge)
