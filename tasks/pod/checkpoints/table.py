"""All formats, the more telling ones first: a tree is of the first that recognises it."""

from tasks.pod.checkpoints import (
    accelerate,
    dcp_hf,
    deepspeed,
    hf_trainer,
    lightning,
    llama_factory,
    megatron,
    nemo,
    orbax,
    plain,
    prime_rl,
    tiny,
    torch_dcp,
    torchtune,
)
from tasks.pod.checkpoints.format import Format
from tasks.pod.checkpoints.tree import Tree
from tasks.pod.errors import BadInputError

FORMATS: tuple[Format, ...] = (
    tiny.FORMAT,
    prime_rl.RL,
    prime_rl.SFT,
    prime_rl.FORMAT,
    llama_factory.FORMAT,
    accelerate.FORMAT,
    hf_trainer.FORMAT,
    nemo.FORMAT,
    megatron.FORMAT,
    lightning.FORMAT,
    orbax.FORMAT,
    torchtune.FORMAT,
    torch_dcp.TORCHTITAN,
    torch_dcp.FORMAT,
    dcp_hf.FORMAT,
    deepspeed.FORMAT,
    plain.ADAPTER,
    plain.SAFETENSORS,
    plain.TORCH,
)

UNRECOGNISED = "unrecognised"


def named(name: str) -> Format:
    """Raises: BadInputError if the table has no such format."""
    for known in FORMATS:
        if known.name == name:
            return known
    raise BadInputError(
        f"There is no checkpoint format {name!r}.", f"Known: {', '.join(known.name for known in FORMATS)}."
    )


def recognised(tree: Tree) -> Format | None:
    """The format that a tree is of, found by content."""
    return next((known for known in FORMATS if known.recognises(tree)), None)
