"""How a format says what speaks against a checkpoint, and the checks that every format shares.

A format raises the first thing it finds: what is missing or torn before what only times say, so that the stronger
verdict wins.
"""

import json
from collections.abc import Iterable
from typing import Any

from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.tree import Tree

MOST_JSON = 32 << 20
"""Bytes of a JSON file or header that is still read; an index of 100,000 tensors has 10 MiB."""


def parse_json(name: str, text: bytes) -> dict[str, Any]:
    """Raises: TornError if the text is no JSON object."""
    try:
        record = json.loads(text)
    except RecursionError:
        raise UnclearError(f"{name} is nested too deeply to be read") from None
    except ValueError:
        raise TornError(f"{name} is cut short or no JSON ({len(text):,} bytes)") from None
    if not isinstance(record, dict):
        raise TornError(f"{name} is no JSON object")
    return record


def read_json(tree: Tree, name: str) -> dict[str, Any]:
    """A JSON object in a file.

    Raises:
        TornError: it is missing, or cut short.
        UnclearError: it is too large to be read, or a link.
    """
    size = tree.need(name).size
    if size > MOST_JSON:
        raise UnclearError(f"{name} has {size:,} bytes, more than is read of a JSON file")
    return parse_json(name, tree.read(name, 0, MOST_JSON + 1))


def not_newer(tree: Tree, marker: str, names: Iterable[str], slack: int = 0) -> None:
    """Check that what is written last is the newest: a marker that is older than a file belongs to an earlier save.

    Args:
        marker: the file that is written last.
        names: files of the same save.
        slack: nanoseconds by which a file may be newer all the same.

    Raises:
        UnclearError: a file is newer. Only unknown, because a plain copy turns times round in a sound checkpoint.
    """
    written = tree.files[marker].mtime
    for name in names:
        if tree.files[name].mtime > written + slack:
            raise UnclearError(
                f"{marker} is older than {name}: a save over an earlier one was interrupted, or the files were copied"
            )


def plural(count: int, noun: str) -> str:
    """`1 shard`, `2 shards`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
