"""Proves that a directory on the volume holds complete Hugging Face weights, by headers, before a GPU is spent."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Set
from math import prod
from pathlib import Path
from typing import Any

from tasks.pod.checkpoints import safetensors
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.tree import scan
from tasks.pod.layout import Layout, real
from tasks.pod.sizes import size_text

_AGAIN = "Put or stage the weights again."
_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_TRAINING = (
    ".metadata",
    "complete.json",
    "optimizer",
    "optimizer.bin",
    "optimizer.pt",
    "optimizer.safetensors",
    "optimizer_0",
    "pytorch_model_fsdp_0",
    "scheduler.pt",
    "trainer",
    "trainer_state.json",
)
"""What trainers write beside weights or instead: DCP, our tiny trainer, Hugging Face Trainer, accelerate, prime-rl."""


class _Unusable(Exception):  # noqa: N818 - a verdict, not a fault
    """Why a directory can not be used as weights, and what to do about it."""

    def __init__(self, why: str, remedy: str = _AGAIN) -> None:
        super().__init__(why, remedy)
        self.why = why
        self.remedy = remedy


def inspect(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Whether a trainer can start from what is at a path.

    Args:
        layout: the volume.
        arguments: "path", relative to the volume or as `/volume/…`.

    Returns:
        "ok", "why" (what was found), "remedy" (what to do if not ok, else ""), "path" (relative), "parameters",
        "linear" (last part of a matrix's name → rows and columns of all of them, added up), "bytes" (of the weights),
        "architecture" and "model_type" (from config.json), "files" (the weight files), "fingerprint" (see
        `fingerprint`); the last seven null if not ok.

    Raises:
        BadInputError: the path leads out of the volume.
    """
    directory = layout.resolve(arguments["path"])
    path = layout.relative(directory)
    try:
        facts = _facts(directory, path)
    except _Unusable as found:
        unknown = dict.fromkeys(("parameters", "linear", "bytes", "architecture", "model_type", "files", "fingerprint"))
        return {"ok": False, "why": found.why, "remedy": found.remedy, "path": path} | unknown
    kind = facts["architecture"] or facts["model_type"] or "weights"
    why = f"{kind}, {facts['parameters']:,} parameters, {size_text(facts['bytes'])}, complete"
    return {"ok": True, "why": why, "remedy": "", "path": path} | facts


def _facts(directory: Path, path: str) -> dict[str, Any]:
    if not directory.exists():
        raise _Unusable(
            f"there is nothing at {path}.", "Stage it: slipway stage weights, or put weights into models/<name>."
        )
    if not directory.is_dir():
        raise _Unusable(f"{path} is a file.", "Name the directory with config.json and the weights.")
    if refused := refusal({entry.name for entry in directory.iterdir()}, path):
        raise _Unusable(*refused)
    config, shards = _read(directory, "config.json"), _shards(directory)
    parameters, linear = 0, Counter[str]()
    for shard, tensors in sorted(shards.items()):
        for name, shape in _check(directory, shard, tensors).items():
            parameters += prod(shape)
            if len(shape) == 2 and name.endswith(".weight"):
                linear[name.split(".")[-2]] += sum(shape)
    architectures = config.get("architectures")
    return {
        "parameters": parameters,
        "linear": dict(linear),
        "bytes": sum((directory / shard).stat().st_size for shard in shards),
        "architecture": architectures[0] if isinstance(architectures, list) and architectures else None,
        "model_type": config.get("model_type"),
        "files": sorted(shards),
        "fingerprint": fingerprint(directory),
    }


def fingerprint(directory: Path) -> str:
    """Another one after any file beside the weights was written, added or taken away: names, sizes, times."""
    with os.scandir(directory) as entries:
        files = sorted((e.name, e.stat().st_size, e.stat().st_mtime_ns) for e in entries if e.is_file())
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()[:24]


def refusal(names: Set[str], path: str) -> tuple[str, str] | None:
    """Why a directory can hold no weights, and what to do, by what lies in it; None where its files have to be read.

    Args:
        path: for the words.
    """
    if signs := [name for name in _TRAINING if name in names]:
        why = f"this is a training checkpoint of a run (it has {signs[0]}), not weights."
        return why, "To continue from it, use [resume].dir, or fork the run."
    if "config.json" in names and not names.isdisjoint((_SINGLE, _INDEX)):
        return None
    if "adapter_config.json" in names:
        return "this is a LoRA adapter, not whole weights.", "Name the directory of its base model, or merge it first."
    if any(name.endswith((".bin", ".pt", ".pth", ".gguf")) for name in names):
        return "it has no safetensors.", "Convert its weights to safetensors first."
    steps = sorted(name for name in names if name.startswith(("step_", "checkpoint-", "step-")))
    if steps:
        return f"it has no weights, but {len(steps)} steps of a run.", "To continue one of them, use [resume].dir."
    if "config.json" in names:
        return f"it has a config.json and no {_SINGLE}.", "Put the weights beside it."
    if any(name.endswith(".safetensors") for name in names):
        return "it has safetensors and no config.json.", "Put the model's config.json beside them."
    return f"there are no weights at {path}.", "Name a directory with config.json and safetensors."


def _shards(directory: Path) -> dict[str, set[str]]:
    """Weight file → the tensors that the index says it holds (none are said for a single file)."""
    shards: dict[str, set[str]] = {}
    if (directory / _SINGLE).exists():
        shards[_SINGLE] = set()
    if (directory / _INDEX).exists():
        weight_map = _read(directory, _INDEX).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise _Unusable(f"{_INDEX} names no tensors.")
        for tensor, shard in weight_map.items():
            if not isinstance(shard, str) or "/" in shard or not shard.endswith(".safetensors"):
                raise _Unusable(f"{_INDEX} names {shard!r}, which is no shard beside it.")
            shards.setdefault(shard, set()).add(tensor)
    return shards


def _check(directory: Path, shard: str, tensors: set[str]) -> dict[str, list[int]]:
    """Prove one file; returns the shapes of the tensors in it."""
    there = real(directory / shard)
    try:
        if not there.is_file():
            raise TornError(f"{shard} is missing")
        header = safetensors.check(scan(there), there.name)
    except (TornError, UnclearError, OSError) as error:
        why = str(error).replace(there.name, shard)
        raise _Unusable(f"the weights are not complete: {why}.") from error
    if lacking := sorted(tensors - header.names):
        raise _Unusable(f"the weights are not complete: {shard} lacks {lacking[0]!r}, which the index says it holds.")
    with there.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entries = json.loads(file.read(length))
    return {name: entry["shape"] for name, entry in entries.items() if name != "__metadata__"}


def _read(directory: Path, name: str) -> dict[str, Any]:
    try:
        content = json.loads((directory / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _Unusable(f"{name} can not be read ({error}).") from error
    if not isinstance(content, dict):
        raise _Unusable(f"{name} is no JSON object.")
    return content
