"""Checkpoints of accelerate's `save_state`: weights, optimizer and scheduler, then `random_states_<rank>.pkl`. There is
no marker, and the number in the name counts saves.

The writer: accelerate/checkpointing.py, save_accelerator_state
"""

import re

from tasks.pod.checkpoints import archive, dcp, deepspeed, ranks, weights
from tasks.pod.checkpoints.evidence import not_newer, plural
from tasks.pod.checkpoints.faults import UnclearError
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree

_SAVE = re.compile(r"checkpoint_[0-9]+")
_RNG = re.compile(r"random_states_([0-9]{1,7})\.pkl")
_STATE = re.compile(
    r"(?:optimizer|scheduler|sampler|dl_state_dict|pytorch_model)(?:_[0-9]+)?\.bin|scaler\.pt|model_[0-9]+\.safetensors"
)
_CUSTOM = re.compile(r"custom_checkpoint_[0-9]+\.pkl")
_DIRECTORIES = re.compile(r"(?:pytorch_model_fsdp|optimizer)_[0-9]+")
_ZERO = "pytorch_model"


def _recognises(tree: Tree) -> bool:
    if any(_RNG.fullmatch(name) for name in tree.top()):
        return True
    if tree.has("trainer_state.json") or tree.has("training_args.bin") or not _SAVE.fullmatch(tree.root.name):
        return False
    parts = [*tree.top(), *tree.directories]
    return bool(weights.names(tree)) or any(_STATE.fullmatch(n) or _DIRECTORIES.fullmatch(n) for n in parts)


def _judge(step: Step) -> Finding:
    tree, siblings = step.tree, step.siblings()
    written, resumable = _sharded(step)
    state = [name for name in tree.top() if _STATE.fullmatch(name) and name not in weights.names(tree)]
    custom = [name for name in tree.top() if _CUSTOM.fullmatch(name)]
    rng = ranks.numbers(tree, _RNG)
    if not written or weights.names(tree):
        written += weights.check(tree, step.deep).files
    for name in (*state, *custom, *rng.values()):
        if name.endswith(".safetensors"):
            weights.check_file(tree, name, step.deep)
        else:
            archive.check(tree, name, step.deep)
    tree.need("random_states_0.pkl", "is missing, which is written after everything else")
    count = ranks.check(rng, "the random state")
    beside = sorted(
        {name for other in siblings for name in other.top() if _STATE.fullmatch(name) or _CUSTOM.fullmatch(name)}
    )
    ranks.as_beside(tree, siblings, beside)
    ranks.agree(count, siblings, _RNG, "random states")
    not_newer(tree, rng[0], (*written, *weights.names(tree), *state, *rng.values()))
    for name in custom:
        not_newer(tree, name, [rng[0]])
    resumable = resumable or any(name.startswith("optimizer") for name in state)
    if not siblings:
        for name, there in (("optimizer", resumable), ("scheduler", tree.has("scheduler.bin"))):
            if not there:
                raise UnclearError(f"there is no {name}, and nothing tells whether the run saves one")
    return Finding(
        f"weights, {plural(len(state), 'file')} of training state and the random states of {plural(count, 'rank')}",
        resumable,
        world_size=count,
    )


def _sharded(step: Step) -> tuple[tuple[str, ...], bool]:
    """The files that FSDP or DeepSpeed saved inside, and whether the optimizer is among them."""
    tree = step.tree
    if _ZERO in tree.directories:
        parts = deepspeed.check(tree.within(_ZERO), step.deep)
        return tuple(f"{_ZERO}/{name}" for name in parts.files), parts.resumable
    files: tuple[str, ...] = ()
    directories = sorted(name for name in tree.directories if _DIRECTORIES.fullmatch(name))
    for name in directories:
        found = dcp.check(tree.within(name), step.deep)
        files += tuple(f"{name}/{file}" for file in (*found.files, dcp.METADATA))
    return files, any(name.startswith("optimizer") for name in directories)


FORMAT = Format("accelerate", _recognises, _judge)
