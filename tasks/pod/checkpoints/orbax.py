"""Checkpoints of orbax: written under a temporary name and renamed, or in place and then marked. What is inside the
files only tensorstore can read, so that a deep look settles nothing.

The writer: checkpoint/orbax/checkpoint/_src/path/atomicity.py
"""

from tasks.pod.checkpoints.evidence import read_json
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree

_MARKER = "commit_success.txt"
_TIMES = "_CHECKPOINT_METADATA"
_TREE = "_METADATA"
_MANIFEST = "manifest.ocdbt"


def _recognises(tree: Tree) -> bool:
    return any(name.rpartition("/")[2] in (_TIMES, _TREE, _MANIFEST) for name in tree.files if name.count("/") < 2)


def _judge(step: Step) -> Finding:
    tree = step.tree
    if ".orbax-checkpoint-tmp" in step.name:
        raise TornError("it is there under its temporary name only")
    items = sorted({n.rpartition("/")[0] for n in tree.files if n.rpartition("/")[2] in (_TREE, _MANIFEST)} - {""})
    for item in (f"{name}/" for name in items):
        read_json(tree, item + _TREE)
        if tree.has(item + _MANIFEST) and not any(name.startswith(f"{item}d/") for name in tree.files):
            raise TornError(f"{item}d/, which holds the arrays, is missing or empty")
    for name, file in tree.files.items():
        if not file.size and not name.endswith(_MARKER):
            raise TornError(f"{name} has 0 bytes")
    times = read_json(tree, _TIMES) if tree.has(_TIMES) else {}
    if not items:
        raise TornError("there are no items in it")
    if not tree.has(_MARKER) and not times.get("commit_timestamp_nsecs"):
        if times:
            raise TornError(f"{_TIMES} has no time of commit: the save was not finished")
        raise UnclearError("nothing says that the save was committed")
    if not times:
        raise UnclearError(f"{_TIMES} is missing: it is an old checkpoint, or one that is being deleted")
    if step.deep:
        raise UnclearError("it was committed, but its arrays can not be read without tensorstore")
    return Finding(f"committed, with {', '.join(items)}; the arrays themselves are not checked", True)


FORMAT = Format("orbax", _recognises, _judge)
