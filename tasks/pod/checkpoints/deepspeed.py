"""Checkpoints of DeepSpeed: one file per rank and kind, and a text file `latest` beside the step's directory, which
rank 0 may write before the other ranks are done.

The writer: deepspeed/runtime/engine.py, save_checkpoint
"""

import re
from dataclasses import dataclass
from typing import Any

from tasks.pod.checkpoints import archive, inert
from tasks.pod.checkpoints.evidence import plural
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree

_MODEL = re.compile(r"(?:zero_pp_rank_(?P<dp>[0-9]+)_)?mp_rank_(?P<mp>[0-9]+)_model_states\.pt")
_OPTIMIZER = re.compile(r"(?:[a-z0-9]+_)?zero_pp_rank_(?P<dp>[0-9]+)_mp_rank_(?P<mp>[0-9]+)_optim_states\.pt")
_OTHER = re.compile(r"(?:layer|expp)_.*_states\.pt")


@dataclass(frozen=True)
class Parts:
    """The files of a whole step.

    Args:
        files: their names.
        ranks: how many wrote them.
        resumable: the optimizer is among them.
        scheduler: so is the scheduler.
        sharded: so are the weights, piece by piece (ZeRO stage 3).
    """

    files: tuple[str, ...]
    ranks: int
    resumable: bool
    scheduler: bool
    sharded: bool


def is_one(tree: Tree) -> bool:
    """Whether files of DeepSpeed lie directly in a directory."""
    return any(_MODEL.fullmatch(name) or _OPTIMIZER.fullmatch(name) for name in tree.top())


def check(tree: Tree, deep: bool = False) -> Parts:
    """Check the files of one step by the numbers of ranks that the model's file says.

    Raises:
        TornError: the file of a rank is missing or torn.
        UnclearError: nothing tells how many ranks there were.
    """
    models = {name: found for name in tree.top() if (found := _MODEL.fullmatch(name))}
    optimizers = {name: found for name in tree.top() if (found := _OPTIMIZER.fullmatch(name))}
    others = [name for name in tree.top() if _OTHER.fullmatch(name)]
    if not models:
        raise TornError(f"the model's file is missing beside {plural(len(optimizers), 'optimizer file')}")
    archives = {name: archive.check(tree, name, deep) for name in (*models, *optimizers, *others)}
    state = archives[min(models)].pickle(tree)
    dp, mp = _number(state, "dp_world_size"), _number(state, "mp_world_size")
    if dp is None or mp is None:
        raise UnclearError(f"{min(models)} does not say how many ranks there were")
    sharded = any(found["dp"] is not None for found in models.values())
    _check_grid("model", models, dp if sharded else 1, mp)
    held = state.get("optimizer") if isinstance(state, inert.Pairs | inert.Thing) else None
    if optimizers:
        _check_grid("optimizer", optimizers, dp, mp)
    elif held is None or (isinstance(held, inert.Pairs) and not held.pairs):
        if _uses_zero(state):
            raise TornError("the optimizer files of all ranks are missing")
        return Parts(tuple(archives), dp * mp, False, False, sharded)
    scheduler = isinstance(state.get("lr_scheduler"), inert.Pairs | inert.Thing)
    return Parts(tuple(archives), dp * mp, True, scheduler, sharded)


def _number(state: Any, name: str) -> int | None:
    value = state.get(name) if isinstance(state, inert.Pairs | inert.Thing) else None
    return value if isinstance(value, int) and 0 < value < 1 << 24 else None


def _uses_zero(state: Any) -> bool:
    settings = state.get("ds_config")
    zero = settings.get("zero_optimization") if isinstance(settings, inert.Pairs) else None
    stage = zero.get("stage") if isinstance(zero, inert.Pairs) else None
    return stage is None or bool(stage)


def _check_grid(kind: str, files: dict[str, re.Match[str]], dp: int, mp: int) -> None:
    there = {(int(found["dp"] or 0), int(found["mp"])) for found in files.values()}
    if dp * mp > len(there) + 10_000:
        raise TornError(f"the {kind} files of {dp * mp - len(there):,} ranks are missing")
    for pair in ((d, m) for d in range(dp) for m in range(mp)):
        if pair not in there:
            raise TornError(
                f"the {kind} file of data-parallel rank {pair[0]}, model-parallel rank {pair[1]} is missing: "
                f"{len(there)} of {dp * mp} are there"
            )
    if len(there) > dp * mp:
        raise UnclearError(f"there are {kind} files of {len(there)} ranks, and the model's file says {dp * mp}")


def _judge(step: Step) -> Finding:
    parts = check(step.tree, step.deep)
    latest = step.tree.root.parent / "latest"
    if not latest.is_file():
        raise UnclearError("all ranks' files are whole, but without `latest` nothing tells that they are of one save")
    written = latest.stat().st_mtime_ns
    for name in parts.files:
        if step.tree.files[name].mtime > written:
            raise UnclearError(f"{name} is newer than `latest`: this save was not finished, or the files were copied")
    return Finding(
        f"the files of all {plural(parts.ranks, 'rank')}", parts.resumable, world_size=parts.ranks
    )  # fmt: skip


FORMAT = Format("deepspeed", is_one, _judge)
