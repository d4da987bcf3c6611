"""Which trainers there are. A new one is one line here."""

from collections.abc import Mapping
from typing import Any

from tasks.pod.errors import BadInputError
from tasks.pod.trainers.adapter import Adapter
from tasks.pod.trainers.axolotl import Axolotl
from tasks.pod.trainers.command import Command
from tasks.pod.trainers.llama_factory import LlamaFactory
from tasks.pod.trainers.prime_rl.adapter import PrimeRL
from tasks.pod.trainers.schema import nearest
from tasks.pod.trainers.tiny.adapter import Tiny
from tasks.pod.trainers.transformers import Transformers

ADAPTERS: dict[str, Adapter] = {
    "axolotl": Axolotl(),
    "command": Command(),
    "llama-factory": LlamaFactory(),
    "prime-rl": PrimeRL(),
    "tiny": Tiny(),
    "transformers": Transformers(),
}
"""Adapters by kind, as blocks, settings and records name them."""


def adapter(kind: str, options: Mapping[str, Any] | None = None) -> Adapter:
    """
    Args:
        options: as a team has set the trainer up.

    Raises:
        BadInputError: there is no such kind (names the nearest, or all of them), or an option can not be.
    """
    if kind not in ADAPTERS:
        near = nearest(kind, ADAPTERS)
        raise BadInputError(
            f"There is no trainer {kind!r}.",
            f"Did you mean {near!r}?" if near else f"Known: {', '.join(sorted(ADAPTERS))}.",
        )
    return ADAPTERS[kind].configured(options) if options else ADAPTERS[kind]


def adapter_of(plan: Mapping[str, Any]) -> Adapter:
    """The adapter of a plan on record."""
    return adapter(plan["trainer"]["kind"], plan.get("request", {}).get("trainer", {}).get("options"))
