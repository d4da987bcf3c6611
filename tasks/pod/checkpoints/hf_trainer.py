"""Checkpoints of the Hugging Face Trainer, and of what builds on it (TRL, axolotl, LLaMA-Factory): weights, then the
training state, then `trainer_state.json`. With PEFT, FSDP or DeepSpeed inside.

The writer: transformers/trainer.py, _save_checkpoint
"""

import re
from dataclasses import dataclass
from typing import Any

from tasks.pod.checkpoints import archive, dcp, deepspeed, inert, ranks, weights
from tasks.pod.checkpoints.evidence import not_newer, read_json
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree

MARKER = "trainer_state.json"
ARGUMENTS = "training_args.bin"
_STEP = re.compile(r"checkpoint-[0-9]+")
_RNG = re.compile(r"rng_state_([0-9]{1,7})\.pth")
_FSDP = ("pytorch_model_fsdp_0", "optimizer_0")
_FSDP_FILES = ("pytorch_model_fsdp.bin", "optimizer.bin")
_STATE = ("optimizer.pt", "scheduler.pt", "scaler.pt")


@dataclass(frozen=True)
class _Part:
    """What a sharding library saved inside, whole.

    Args:
        files: their names.
        kind: what they are, in words, the library first.
        optimizer: the optimizer is among them.
        scheduler: so is the scheduler.
        weights: so are the weights, so that there may be no others.
        ranks: how many wrote them; None where nothing tells.
    """

    files: tuple[str, ...]
    kind: str
    optimizer: bool
    scheduler: bool = False
    weights: bool = True
    ranks: int | None = None


def _recognises(tree: Tree) -> bool:
    if tree.has(MARKER) or tree.has(ARGUMENTS):
        return True
    if not _STEP.fullmatch(tree.root.name):
        return False
    return bool(weights.names(tree)) or any(
        name in ("config.json", weights.ADAPTER_CONFIG, *_STATE) or name.startswith(".tmp") for name in tree.top()
    )


def _judge(step: Step) -> Finding:
    tree = step.tree
    sharded = _sharded(step)
    has_weights = bool(weights.names(tree)) or tree.has(weights.ADAPTER_CONFIG)
    whole = weights.check(tree, step.deep) if has_weights or not (sharded and sharded.weights) else None
    arguments = archive.check(tree, ARGUMENTS, step.deep).pickle(tree) if whole or tree.has(ARGUMENTS) else None
    state = _training_state(step, sharded, arguments)
    marker = read_json(tree, MARKER)
    number = marker.get("global_step")
    if not isinstance(number, int) or (step.number is not None and number != step.number):
        raise UnclearError(f"{MARKER} says global_step {number!r}, the directory says {step.number}")
    files = [*weights.names(tree), *state, *(sharded.files if sharded else ())]
    not_newer(tree, MARKER, files)
    resumable = "optimizer.pt" in state or bool(sharded and sharded.optimizer)
    parts = [whole.why if whole else "", sharded.kind if sharded else "", "the training state" if resumable else ""]
    kinds = ("+peft" if whole and whole.adapter else "") + (f"+{sharded.kind.split()[0].lower()}" if sharded else "")
    return Finding(
        f"{' and '.join(filter(None, parts))}, and {MARKER} of the same save"
        + ("" if resumable else ": weights only, without an optimizer"),
        resumable,
        format=f"hf-trainer{kinds}",
        step=number,
        world_size=_processes(arguments, sharded),
    )


def _sharded(step: Step) -> _Part | None:
    """What FSDP or DeepSpeed saved inside."""
    tree = step.tree
    tags = sorted({name.partition("/")[0] for name in tree.directories if name.startswith("global_step")})
    if tags or tree.has("latest"):
        tag = tree.read("latest", 0, 256).decode(errors="replace").strip() if tree.need("latest") else ""
        if tag not in tags:
            raise TornError(f"`latest` names {tag!r}, which is not there")
        parts = deepspeed.check(tree.within(tag), step.deep)
        files = tuple(f"{tag}/{name}" for name in parts.files)
        kind = "DeepSpeed files of all ranks"
        return _Part(files, kind, parts.resumable, parts.scheduler, parts.sharded, parts.ranks)
    if any(name in tree.directories for name in _FSDP):
        return _fsdp_directories(step)
    if any(tree.has(name) for name in _FSDP_FILES):
        for name in _FSDP_FILES:
            archive.check(tree, name, step.deep)
        return _Part(_FSDP_FILES, "FSDP files", optimizer=True)
    return None


def _fsdp_directories(step: Step) -> _Part:
    model, optimizer = _FSDP
    tree = step.tree
    found = dcp.check(tree.within(model), step.deep)
    files = [f"{model}/{name}" for name in (*found.files, dcp.METADATA)]
    if optimizer in tree.directories:
        found = dcp.check(tree.within(optimizer), step.deep)
        files += [f"{optimizer}/{name}" for name in (*found.files, dcp.METADATA)]
    return _Part(tuple(files), "FSDP shards", optimizer in tree.directories, ranks=found.ranks)


def _training_state(step: Step, sharded: _Part | None, arguments: Any) -> list[str]:
    """Check the optimizer's, scheduler's and random states; return those that are there."""
    tree = step.tree
    rng = ranks.numbers(tree, _RNG)
    there = [name for name in (*_STATE, "rng_state.pth") if tree.has(name)] + list(rng.values())
    for name in there:
        tree.need(name)
        archive.check(tree, name, step.deep)
    has_optimizer = bool(sharded and sharded.optimizer)
    if not there and not has_optimizer:
        _check_weights_only(step, arguments)
        return []
    if not has_optimizer:
        tree.need("optimizer.pt")
    if not (sharded and sharded.scheduler):
        tree.need("scheduler.pt")
    processes = _processes(arguments, sharded)
    if tree.has("rng_state.pth") and not rng:
        if processes and processes > 1:
            raise TornError(f"the random states of {processes} ranks are missing")
    elif processes == 1:
        tree.need("rng_state.pth")
    else:
        # a name with a rank is given only where there are several
        count = ranks.check(rng, "the random state", processes or 2)
        if processes is None:
            ranks.agree(count, step.siblings(), _RNG, "random states")
    ranks.as_beside(tree, step.siblings(), ("scaler.pt", "scheduler.pt"))
    return there


def _check_weights_only(step: Step, arguments: Any) -> None:
    """Without any training state, either the run saves none, or it was deleted or not yet written."""
    only = arguments.get("save_only_model") if isinstance(arguments, inert.Thing) else None
    if only is True:
        return
    if only is False:
        raise TornError("optimizer.pt is missing, and the run saves more than its weights")
    ranks.as_beside(step.tree, step.siblings(), _STATE)
    if not any(other.has(MARKER) for other in step.siblings()):
        raise UnclearError("there are only weights, and nothing tells whether the run saves more")


def _processes(arguments: Any, sharded: _Part | None) -> int | None:
    """How many processes saved it, by the arguments that the Trainer saves and by the shards."""
    state = arguments.get("distributed_state") if isinstance(arguments, inert.Thing) else None
    count = state.get("num_processes") if isinstance(state, inert.Thing) else None
    told = count if isinstance(count, int) and 0 < count < 1 << 20 else 0
    return max(told, sharded.ranks or 0 if sharded else 0) or None


FORMAT = Format("hf-trainer", _recognises, _judge)
