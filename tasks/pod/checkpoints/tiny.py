"""Checkpoints of Slipway's own tiny trainer: `complete.json`, written last and removed first, names every file."""

import hashlib
from typing import Any

from tasks.pod.checkpoints import safetensors
from tasks.pod.checkpoints.evidence import not_newer, plural, read_json
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree

MARKER = "complete.json"
_FILES = {"model.safetensors", "optimizer.safetensors", "state.json", MARKER}


def _recognises(tree: Tree) -> bool:
    names = set(tree.files)
    if MARKER in names and b'"tiny"' in tree.read(MARKER, 0, 1 << 16):
        return True
    return names <= _FILES and bool(names & {MARKER, "optimizer.safetensors"})


def _judge(step: Step) -> Finding:
    tree = step.tree
    marker = read_json(tree, MARKER)
    if step.number is not None and marker.get("step") != step.number:
        raise UnclearError(f"{MARKER} says step {marker.get('step')!r}, the directory says {step.number}")
    files = marker.get("files")
    if not isinstance(files, dict) or not files:
        raise TornError(f"{MARKER} names no files")
    for name, entry in files.items():
        _check(step, str(name), entry)
    state = read_json(tree, "state.json")
    if "state.json" not in files or state.get("step") != marker.get("step"):
        raise UnclearError(f"state.json says step {state.get('step')!r}, {MARKER} says {marker.get('step')!r}")
    not_newer(tree, MARKER, files)
    resumable = "optimizer.safetensors" in files
    return Finding(
        f"{MARKER} and {plural(len(files), 'file')} that it names, {'hashes' if step.deep else 'sizes'} as it says",
        resumable,
        step=marker["step"] if isinstance(marker.get("step"), int) else None,
        world_size=1,
    )


def _check(step: Step, name: str, entry: Any) -> None:
    size = entry.get("size") if isinstance(entry, dict) else None
    there = step.tree.need(name, f"is named by {MARKER} and missing")
    if not isinstance(size, int):
        raise TornError(f"{MARKER} gives no size for {name}")
    if there.size < size:
        raise TornError(f"{name} ends {size - there.size:,} bytes early")
    if there.size > size:
        raise TornError(f"{name} is {there.size - size:,} bytes longer than {MARKER} says")
    if name.endswith(".safetensors"):
        safetensors.check(step.tree, name)
    if step.deep:
        digest = hashlib.sha256()
        for piece in step.tree.chunks(name, 0, size):
            digest.update(piece)
        if digest.hexdigest() != entry.get("sha256"):
            raise TornError(f"{name} has other bytes than {MARKER} says (sha256)")


FORMAT = Format("tiny", _recognises, _judge)
