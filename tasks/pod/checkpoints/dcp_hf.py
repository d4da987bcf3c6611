"""Checkpoints of torch's `HuggingFaceStorageWriter`: safetensors with an index that is written last, consolidated from
`sharded/` or not. Without an index, nothing tells how many ranks there were.

The writer: torch/distributed/checkpoint/hf_storage.py
"""

import re

from tasks.pod.checkpoints import weights
from tasks.pod.checkpoints.evidence import not_newer
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree

_RANK = re.compile(r"(?:sharded/)?shard-[0-9]+-model-[0-9]+-of-[0-9]+\.safetensors")
_INDEX = "model.safetensors.index.json"


def _recognises(tree: Tree) -> bool:
    return any(_RANK.fullmatch(name) for name in tree.files)


def _judge(step: Step) -> Finding:
    tree = step.tree
    shards = [name for name in tree.files if _RANK.fullmatch(name)]
    for name in shards:
        weights.check_file(tree, name, step.deep)
    if not tree.has(_INDEX):
        if any("/" in name for name in shards):
            raise TornError(f"{_INDEX}, which is written last, is missing")
        raise UnclearError("each rank wrote a file, and nothing tells how many ranks there were")
    whole = weights.check(tree, step.deep)
    not_newer(tree, _INDEX, shards)
    return Finding(f"{whole.why}: weights only, without an optimizer", False)


FORMAT = Format("dcp-hf", _recognises, _judge)
