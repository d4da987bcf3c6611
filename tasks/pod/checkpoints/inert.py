"""Reads a pickle without doing anything that it says: every class and function in it becomes a `Thing` that only keeps
what it was given. Nothing is imported, called or hashed, so that a hostile one costs bounded time and memory.
"""

import struct
from collections.abc import Collection
from typing import Any

from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.opcodes import Machine
from tasks.pod.checkpoints.stubs import Pairs, Persistent, Thing

__all__ = ["MOST_BYTES", "Pairs", "Persistent", "Thing", "read"]

MOST_BYTES = 64 << 20


def read(
    text: bytes,
    what: str,
    allowed: Collection[tuple[str, str]] | None = None,
    persistent: list[Any] | None = None,
) -> Any:
    """Read a pickle.

    Args:
        text: all of it.
        what: how to call it in messages.
        allowed: the exact (module, name) pairs that it may name; None for any, since none is imported.
        persistent: gathers the keys of what is stored elsewhere.

    Raises:
        TornError: it is cut short or damaged.
        UnclearError: it names something else, or takes more time or memory than such a file does.
    """
    if len(text) > MOST_BYTES:
        raise UnclearError(f"{what} has {len(text):,} bytes, more than is read of a pickle")
    try:
        return Machine(text, what, allowed, persistent).run()
    except (IndexError, struct.error, ValueError):
        raise TornError(f"{what} is cut short or damaged: it does not read as a pickle") from None
    except (AttributeError, TypeError, KeyError):
        raise UnclearError(f"{what} is a pickle that no such file has") from None
