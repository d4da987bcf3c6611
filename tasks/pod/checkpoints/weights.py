"""Evidence from model weights as Hugging Face libraries write them: one file, shards with an index, or an adapter."""

import re
from dataclasses import dataclass
from typing import Any

from tasks.pod.checkpoints import archive, safetensors
from tasks.pod.checkpoints.evidence import not_newer, plural, read_json
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.tree import Tree

_SHARD = re.compile(r"(?:model|pytorch_model|adapter_model)[-_][0-9]+-of-[0-9]+\.(?:safetensors|bin)")
_STEMS = ("model.safetensors", "pytorch_model.bin")
_ADAPTERS = ("adapter_model.safetensors", "adapter_model.bin")
ADAPTER_CONFIG = "adapter_config.json"


@dataclass(frozen=True)
class Weights:
    """Whole weights.

    Args:
        files: those that hold them, and their index.
        adapter: they are an adapter (PEFT), and the base model is only named.
        why: what was found, in words.
    """

    files: tuple[str, ...]
    adapter: bool
    why: str


def names(tree: Tree) -> list[str]:
    """Files directly in a directory that hold weights or say where they are; also of a save that was interrupted."""
    known = {*_STEMS, *_ADAPTERS, *(f"{stem}.index.json" for stem in _STEMS)}
    return [name for name in tree.top() if name in known or _SHARD.fullmatch(name)]


def check(tree: Tree, deep: bool = False) -> Weights:
    """Check the weights directly in a directory.

    Raises:
        TornError: none are there, or a file is missing, ends early or is of another save.
        UnclearError: two sets of weights are there, and it is not clear which is meant.
    """
    if tree.has(ADAPTER_CONFIG) or any(tree.has(name) for name in _ADAPTERS):
        return _check_adapter(tree, deep)
    for stem in _STEMS:
        index = f"{stem}.index.json"
        if tree.has(stem) and tree.has(index):
            return _check_both(tree, stem, index, deep)
        if tree.has(stem):
            check_file(tree, stem, deep)
            return Weights((stem,), False, stem)
        if tree.has(index):
            return _check_sharded(tree, index, deep)
    shards = sum(1 for name in tree.top() if _SHARD.fullmatch(name))
    if shards:
        raise TornError(f"the index of {plural(shards, 'weight shard')} is missing")
    if any(name.startswith(".tmp") for name in tree.top()):
        raise TornError("the weights are there under a temporary name only")
    raise TornError("there are no weights")


def check_file(tree: Tree, name: str, deep: bool) -> frozenset[str] | None:
    """Check one file of weights; return the names of its tensors, where its header tells them.

    Raises: as `safetensors.check` and `archive.check`.
    """
    if name.endswith(".safetensors"):
        return safetensors.check(tree, name, deep).names
    archive.check(tree, name, deep)
    return None


def _check_adapter(tree: Tree, deep: bool) -> Weights:
    name = next((name for name in _ADAPTERS if tree.has(name)), _ADAPTERS[0])
    check_file(tree, name, deep)
    read_json(tree, ADAPTER_CONFIG)
    return Weights((name,), True, f"{name} and {ADAPTER_CONFIG}")


def _check_sharded(tree: Tree, index: str, deep: bool) -> Weights:
    shards = _shards(read_json(tree, index), index)
    for number, name in enumerate(shards, 1):
        tree.need(name, f"(shard {number} of {len(shards)} named by the index) is missing")
    for name, keys in shards.items():
        there = check_file(tree, name, deep)
        if there is not None and not keys <= there:
            raise TornError(f"{name} is of another save: it has not the tensors that the index says")
        if there is not None and there > keys:
            raise UnclearError(f"{name} has tensors that the index does not name")
    not_newer(tree, index, shards)
    return Weights((*shards, index), False, f"the index and all {plural(len(shards), 'shard')} that it names")


def _shards(index: dict[str, Any], name: str) -> dict[str, set[str]]:
    """File name to the tensors that it should hold, in order."""
    found: dict[str, set[str]] = {}
    placed = index.get("weight_map")
    if not isinstance(placed, dict) or not placed:
        raise TornError(f"{name} names no shards")
    for key, file in placed.items():
        if not isinstance(file, str):
            raise TornError(f"{name} names no file for {key[:80]!r}")
        found.setdefault(file, set()).add(key)
    return dict(sorted(found.items()))


def _check_both(tree: Tree, stem: str, index: str, deep: bool) -> Weights:
    """Both ways of saving are there: loaders take the single file, which is right only if it is of the last save."""
    check_file(tree, stem, deep)
    newest = max(tree.files[name].mtime for name in names(tree) if name != stem)
    if tree.files[stem].mtime <= newest:
        raise UnclearError(f"{stem} and {index} are both there, and {stem}, which loaders prefer, is not the newer one")
    return Weights((stem,), False, f"{stem}, which is newer than {index}")
