"""How large LoRA adapters are: beside each linear layer two matrices, of its rows and of its columns by the rank.

Names and defaults were read from PEFT 0.19.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.pod.trainers.adapter import ModelSize

_NEVER = frozenset(("lm_head", "embed_tokens", "wte", "wpe", "embed_in", "embed_out", "word_embeddings", "score"))
"""Heads and embeddings: PEFT's "all-linear" leaves them out, and only full copies are made of them."""


@dataclass(frozen=True)
class Lora:
    """What is adapted.

    Args:
        targets: names of layers ("q_proj"); None for all linear ones, or for PEFT's own choice, which is fewer.
    """

    rank: int
    targets: tuple[str, ...] | None = None

    def parameters(self, model: ModelSize) -> int | None:
        """How many are trained, at most; None where the weights can not be looked at, or a target is a pattern."""
        if model.linear is None or any(not name.isidentifier() for name in self.targets or ()):
            return None
        names = [name for name in model.linear if name not in _NEVER] if self.targets is None else self.targets
        return self.rank * sum(model.linear.get(name, 0) for name in names)


def targets_of(value: object) -> tuple[str, ...] | None:
    """A config's list of layers, or a text of them with commas; "all", "all-linear" and nothing are None."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, Sequence) or not value or set(map(str, value)) & {"all", "all-linear"}:
        return None
    return tuple(map(str, value))
