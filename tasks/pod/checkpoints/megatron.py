"""Checkpoints of Megatron-LM and Megatron-Bridge: a distributed checkpoint, then `metadata.json`; or, as they were
once, one file per model-parallel rank. `latest_checkpointed_iteration.txt` beside the step is written last.

The writers: megatron/training/checkpointing.py, megatron/core/dist_checkpointing/serialization.py
"""

import hashlib
import re
from typing import Any

from tasks.pod.checkpoints import archive, dcp, inert
from tasks.pod.checkpoints.evidence import not_newer, plural, read_json
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree

MARKER = "metadata.json"
_STEP = re.compile(r"iter_[0-9]{7,}|release")
_RANK = re.compile(r"mp_rank_([0-9]{2,})(?:_([0-9]{3,}))?(?:_[0-9]{3,})?/model_optim_rng\.pt")
_TRACKER = "latest_checkpointed_iteration.txt"


def _recognises(tree: Tree) -> bool:
    return (bool(_STEP.fullmatch(tree.root.name)) and bool(tree.files)) or any(_RANK.fullmatch(n) for n in tree.files)


def _judge(step: Step) -> Finding:
    tree = step.tree
    if any(name.startswith("mp_rank_") for name in tree.directories):
        return _judge_ranks(step)
    parts = dcp.check(tree, step.deep)
    if not tree.has(MARKER):
        if any(other.has(MARKER) for other in step.siblings()):
            raise TornError(f"{MARKER}, which is written after the shards, is missing")
        raise UnclearError(f"{MARKER} is missing: the save was interrupted, or it is of a kind that writes none")
    check_backend(tree)
    bridge = _check_bridge(step)
    for name in ("common.pt",):
        if tree.has(name):
            archive.check(tree, name, step.deep)
    if step.deep and tree.has("integrity.json"):
        _check_hashes(tree)
    not_newer(tree, MARKER, [*parts.files, dcp.METADATA])
    return Finding(
        f"{parts}, and {MARKER}{_tracked(step)}",
        True,
        format="megatron-bridge" if bridge else None,
        world_size=parts.ranks,
    )


def check_backend(tree: Tree) -> None:
    """Check that `metadata.json` is whole and says that the checkpoint is a distributed one of torch's.

    Raises: TornError, UnclearError.
    """
    backend = read_json(tree, MARKER).get("sharded_backend")
    if backend not in ("torch_dist", "torch_dcp", "fsdp_dtensor"):
        raise UnclearError(f"{MARKER} names the backend {str(backend)[:40]!r}, which is not known")


def _check_bridge(step: Step) -> bool:
    tree = step.tree
    siblings = step.siblings()
    beside = any(other.has("train_state.pt") or other.has("run_config.yaml") for other in siblings)
    if not tree.has("train_state.pt") and not tree.has("run_config.yaml") and not beside:
        tracked = _tracker(step)
        if not siblings and (tracked is None or tracked < (step.number or 0)):
            raise UnclearError(f"{_TRACKER} does not name it, and nothing tells whether more is still to come")
        return False
    archive.check(tree, "train_state.pt", step.deep)
    if not tree.need("run_config.yaml", "is missing, which is written last").size:
        raise TornError("run_config.yaml has 0 bytes")
    not_newer(tree, "train_state.pt", [MARKER])
    not_newer(tree, "run_config.yaml", ["train_state.pt"])
    return True


def _check_hashes(tree: Tree) -> None:
    """Compare every file with the SHA-256 that `integrity.json` gives it."""
    found = read_json(tree, "integrity.json")
    named = found.get("files", found)
    for name, entry in named.items() if isinstance(named, dict) else ():
        wanted = entry.get("sha256") if isinstance(entry, dict) else entry
        if not isinstance(wanted, str) or not re.fullmatch(r"[0-9a-f]{64}", wanted):
            continue
        digest = hashlib.sha256()
        for piece in tree.chunks(name, 0, tree.need(name).size):
            digest.update(piece)
        if digest.hexdigest() != wanted:
            raise TornError(f"{name} has other bytes than integrity.json says (sha256)")


def _judge_ranks(step: Step) -> Finding:
    tree = step.tree
    there = {(int(found[1]), int(found[2] or 0)): name for name in tree.files if (found := _RANK.fullmatch(name))}
    files = [n for n in tree.files if n.endswith((".pt", ".bin"))]
    archives = {name: archive.check(tree, name, step.deep) for name in files}
    if (0, 0) not in there:
        raise TornError("mp_rank_00 is missing")
    state = archives[there[0, 0]].pickle(tree)
    settings = state.get("args") if isinstance(state, inert.Pairs) else None
    tp, pp = _size(settings, "tensor_model_parallel_size"), _size(settings, "pipeline_model_parallel_size")
    if tp is None or pp is None:
        raise UnclearError("nothing tells how many model-parallel ranks there were")
    missing = [pair for pair in ((t, p) for t in range(tp) for p in range(pp)) if pair not in there]
    if missing:
        raise TornError(f"model-parallel rank {missing[0][0]} of pipeline stage {missing[0][1]} is missing")
    tracker = tree.root.parent / _TRACKER
    if not tracker.is_file() or any(tree.files[name].mtime > tracker.stat().st_mtime_ns for name in files):
        raise UnclearError(f"{_TRACKER} is missing or older than a file: nothing tells that they are of one save")
    return Finding(f"the files of all {plural(tp * pp, 'model-parallel rank')}{_tracked(step)}", True)


def _size(settings: Any, name: str) -> int | None:
    value = settings.get(name) if isinstance(settings, inert.Thing | inert.Pairs) else None
    return value if isinstance(value, int) and 0 < value < 4096 else None


def _tracked(step: Step) -> str:
    """What the tracker says where it names an earlier step, which an asynchronous save leaves so for a while."""
    tracked = _tracker(step)
    behind = tracked is not None and step.number is not None and tracked < step.number
    return f" (the tracker still names {tracked})" if behind else ""


def _tracker(step: Step) -> int | None:
    """The iteration that the tracker names; `release` counts as the first."""
    try:
        with (step.tree.root.parent / _TRACKER).open("rb") as file:
            text = file.read(20).strip()
    except OSError:
        return None
    return 0 if text == b"release" else int(text) if text.isdigit() else None


FORMAT = Format("megatron", _recognises, _judge)
