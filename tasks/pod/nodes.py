"""What the caches of nodes held when a run of this volume last looked: where its weights are likely to be near.

A hint, one small file a node, replaced whole: whoever finds it wrong copies the weights once more.
"""

import contextlib
import os
import time
from collections.abc import Iterable

from tasks.pod.errors import BadInputError, PodError
from tasks.pod.layout import Layout
from tasks.pod.records import Shape, read_if_there, replace

_NOTE: Shape = {"node": str, "weights": list, "at": float}

_MOST = 8
"""Nodes that a job is told to prefer: each is one more term for the scheduler to weigh."""


def this_node() -> str | None:
    """The name that the cluster has for the node of this process; None where it does not say."""
    return os.environ.get("SLIPWAY_NODE") or None


def note(layout: Layout, keys: Iterable[str]) -> None:
    """Write down what the cache of this node holds; nothing where that can not be done.

    Args:
        keys: of the entries in its cache (see `tasks.pod.node_cache`).
    """
    if node := this_node():
        with contextlib.suppress(OSError, BadInputError):  # a full volume, a name that is no name of a file
            replace(layout.node(node), {"node": node, "weights": sorted(keys), "at": time.time()})


def nodes_with(layout: Layout, key: str) -> list[str]:
    """The nodes whose caches held an entry, those that were seen last first."""
    found: list[tuple[float, str]] = []
    for path in layout.nodes.glob("*.json"):
        with contextlib.suppress(PodError, OSError):
            seen = read_if_there(path, _NOTE)
            if seen and key in seen["weights"]:
                found.append((seen["at"], seen["node"]))
    return [node for _, node in sorted(found, reverse=True)[:_MOST]]
