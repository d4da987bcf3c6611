"""Which trainers there are. A new one is one line here."""

from tasks.pod.errors import BadInputError
from tasks.pod.trainers.adapter import Adapter
from tasks.pod.trainers.schema import nearest
from tasks.pod.trainers.tiny.adapter import Tiny

ADAPTERS: dict[str, Adapter] = {"tiny": Tiny()}
"""Adapters by kind, as blocks, settings and records name them."""


def adapter(kind: str) -> Adapter:
    """Raises: BadInputError if there is no such kind; names the nearest, or all of them."""
    if kind not in ADAPTERS:
        near = nearest(kind, ADAPTERS)
        raise BadInputError(
            f"There is no trainer {kind!r}.",
            f"Did you mean {near!r}?" if near else f"Known: {', '.join(sorted(ADAPTERS))}.",
        )
    return ADAPTERS[kind]
