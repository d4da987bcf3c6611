"""Evidence from safetensors files: the header says exactly how long the file is and what it holds.

The format: https://github.com/huggingface/safetensors#format
"""

from dataclasses import dataclass
from math import prod
from typing import Any

from tasks.pod.checkpoints.evidence import MOST_JSON, parse_json
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.tree import Tree

_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64,
    "C64": 64, "C128": 128, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
_BLOCK = 4096
_LEAST_TAIL = 512


@dataclass(frozen=True)
class Header:
    """What a safetensors file says of itself: its tensors' names, and where their bytes begin."""

    names: frozenset[str]
    data: int


def check(tree: Tree, name: str, deep: bool = False) -> Header:
    """Check a file by its header: the tensors fill it exactly, without gaps. Deep: no block of it was lost.

    Raises:
        TornError: it is missing, shorter or longer than it says, or has no header.
        UnclearError: it is too large to be read, or has blocks of zeros as a crashed host leaves them.
    """
    size = tree.need(name).size
    if size == 0:
        raise TornError(f"{name} has 0 bytes")
    if size < 8:
        raise TornError(f"{name} ends inside its header")
    length = int.from_bytes(tree.read(name, 0, 8), "little")
    if 8 + length > size:
        raise TornError(f"{name} ends inside its header, or does not begin like a safetensors file")
    if length > MOST_JSON:
        raise UnclearError(f"the header of {name} has {length:,} bytes, more than is read")
    header = parse_json(f"the header of {name}", tree.read(name, 8, length))
    header.pop("__metadata__", None)
    end = _tiled(name, header)
    expected = 8 + length + end
    if size < expected:
        raise TornError(f"{name} ends {expected - size:,} bytes early")
    if size > expected:
        raise TornError(f"{name} is {size - expected:,} bytes longer than its header says")
    if deep:
        _no_lost_blocks(tree, name, size)
    return Header(frozenset(header), 8 + length)


def _tiled(name: str, header: dict[str, Any]) -> int:
    """The end of the last tensor, all of them being as long as their shapes say and side by side."""
    spans = []
    for tensor, entry in header.items():
        try:
            begin, end = entry["data_offsets"]
            shape, dtype = entry["shape"], entry["dtype"]
            whole = all(isinstance(n, int) and n >= 0 for n in (begin, end, *shape))
        except (TypeError, KeyError, ValueError):
            whole = False
        if not whole:
            raise TornError(f"the header of {name} has no sound entry for {str(tensor)[:80]!r}")
        if dtype not in _BITS:
            raise UnclearError(f"{name} has tensors of type {str(dtype)[:40]!r}, which is not known")
        if prod(shape) * _BITS[dtype] != (end - begin) * 8:
            raise TornError(f"{str(tensor)[:80]!r} in {name} is not as long as its shape says")
        spans.append((begin, end))
    at = 0
    for begin, end in sorted(spans):
        if begin != at:
            raise TornError(f"the tensors of {name} leave a gap or overlap at byte {at:,} of its data")
        at = end
    return at


def _no_lost_blocks(tree: Tree, name: str, size: int) -> None:
    """Find runs of zeros that begin and end exactly at block boundaries, with other bytes on both sides.

    A file system that crashed before it wrote delayed blocks leaves such holes; tensors that are zero by nature
    hardly ever begin and end there.
    """
    zeros = bytes(_BLOCK)
    at, start, run = 0, 0, False
    last = before = b"\1"
    for piece in tree.chunks(name, 0, size):
        for offset in range(0, len(piece), _BLOCK):
            block = piece[offset : offset + _BLOCK]
            if block == zeros[: len(block)]:
                if not run:
                    run, before, start = True, last[-8:], at + offset
            elif run:
                if any(before) and any(block[:8]):
                    raise UnclearError(_lost(name, start, at + offset))
                run = False
            last = block
        at += len(piece)
    if run and any(before) and size - start >= _LEAST_TAIL:
        raise UnclearError(_lost(name, start, size))


def _lost(name: str, start: int, end: int) -> str:
    return f"bytes {start:,} to {end:,} of {name} are zeros from block to block, as a crashed host leaves lost data"
