"""Evidence from torch distributed checkpoints (DCP): `.metadata`, written last, says which bytes of which file belong
to which tensor, and names the files of all ranks.

The writer: torch/distributed/checkpoint/filesystem.py
"""

import re
from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import Any

from tasks.pod.checkpoints import archive, inert, safetensors
from tasks.pod.checkpoints.evidence import not_newer, plural
from tasks.pod.checkpoints.faults import TornError, UnclearError
from tasks.pod.checkpoints.tree import Tree

METADATA = ".metadata"
_SHARD = re.compile(r"__([0-9]{1,9})_[0-9]+\.distcp")
_OF_ONE_RANK = re.compile(r"__[0-9]+\.metadata")
_TYPES = (
    "float32", "float64", "float16", "bfloat16", "complex32", "complex64", "complex128", "bool",
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2",
)  # fmt: skip
_DCP = "torch.distributed.checkpoint"
ALLOWED = frozenset(
    {
        *((f"{_DCP}.metadata", name) for name in (
            "Metadata", "MetadataIndex", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata",
            "TensorProperties", "StorageMeta", "_MEM_FORMAT_ENCODING",
        )),
        (f"{_DCP}.filesystem", "_StorageInfo"),
        ("megatron.core.dist_checkpointing.strategies.torch", "MCoreMetadata"),
        ("torch", "Size"),
        ("torch.serialization", "_get_layout"),
        ("pathlib", "PosixPath"),
        ("pathlib._local", "PosixPath"),
        ("collections", "OrderedDict"),
        *(("torch", name) for name in _TYPES),
    }
)  # fmt: skip
"""What `.metadata` names: exact pairs, never prefixes."""


@dataclass(frozen=True)
class Parts:
    """A whole distributed checkpoint.

    Args:
        files: the files that `.metadata` names.
        items: how many pieces of tensors and other objects they hold.
        ranks: by the names of the files, those of ranks that had nothing to save included; None where they tell none.
    """

    files: tuple[str, ...]
    items: int
    ranks: int | None

    def __str__(self) -> str:
        return f"{METADATA} and {plural(len(self.files), 'shard')} that it names"


@dataclass(frozen=True, slots=True)
class _Item:
    name: str
    file: str
    offset: int
    length: int
    encoded: bool


def is_one(tree: Tree) -> bool:
    """Whether there are shards or their metadata directly in a directory."""
    return METADATA in tree.files or any(
        "/" not in name and (_SHARD.fullmatch(name) or _OF_ONE_RANK.fullmatch(name)) for name in tree.files
    )


def check(tree: Tree, deep: bool = False) -> Parts:
    """Check a distributed checkpoint. Deep: by every byte of every item.

    Raises:
        TornError: a file is missing or ends early, or the pieces do not make up the tensors.
        UnclearError: `.metadata` is older than a shard, names something unknown, or each rank has its own.
    """
    if METADATA not in tree.files and METADATA not in tree.links:
        raise _without_metadata(tree)
    size = tree.need(METADATA).size
    if size > inert.MOST_BYTES:
        raise UnclearError(f"{METADATA} has {size:,} bytes, more than is read")
    metadata = inert.read(tree.read(METADATA, 0, size), METADATA, ALLOWED)
    items = _items(metadata)
    ends: dict[str, int] = {}
    for item in items:
        ends[item.file] = max(ends.get(item.file, 0), item.offset + item.length)
    longer = _check_sizes(tree, ends)
    _check_pieces(metadata, items)
    if deep:
        _check_bytes(tree, items)
    else:
        _check_frames(tree, items)
    not_newer(tree, METADATA, ends)
    if f"{METADATA}.tmp" in tree.files:
        raise UnclearError(f"{METADATA}.tmp is there: the step is being saved again, or that was interrupted")
    if longer:
        raise UnclearError(f"{longer} is longer than {METADATA} says")
    ranks = [int(found[1]) for name in tree.top() if (found := _SHARD.fullmatch(name))]
    return Parts(tuple(sorted(ends)), len(items), max(ranks) + 1 if ranks else None)


def _without_metadata(tree: Tree) -> TornError | UnclearError:
    shards = sum(1 for name in tree.top() if _SHARD.fullmatch(name))
    if any(_OF_ONE_RANK.fullmatch(name) for name in tree.top()):
        return UnclearError("each rank wrote metadata of its own, and nothing tells how many ranks there were")
    if f"{METADATA}.tmp" in tree.files:
        return TornError(f"{METADATA} is there under its temporary name only")
    return TornError(f"{METADATA}, which is written last, is missing beside {plural(shards, 'shard')}")


def _items(metadata: Any) -> list[_Item]:
    storage = metadata.get("storage_data") if isinstance(metadata, inert.Thing) else None
    if not isinstance(storage, inert.Pairs):
        raise UnclearError(f"{METADATA} does not say where the data is")
    items = []
    for index, info in storage.pairs:
        name = index.get("fqn") if isinstance(index, inert.Thing) else None
        fields = (
            (info.get("relative_path"), info.get("offset"), info.get("length")) if isinstance(info, inert.Thing) else ()
        )
        match fields:
            case (str(file), int(offset), int(length)) if isinstance(name, str) and offset >= 0 and length >= 0:
                encoded = info.get("transform_descriptors") not in (None, ())
                items.append(_Item(name, file, offset, length, encoded))
            case _:
                raise UnclearError(f"{METADATA} does not say where all data is")
    if not items:
        raise UnclearError(f"{METADATA} names no data")
    return items


def _check_sizes(tree: Tree, ends: dict[str, int]) -> str | None:
    """Return the name of a file that is longer than it should be."""
    longer = None
    for number, (name, end) in enumerate(sorted(ends.items()), 1):
        size = tree.need(name, f"(shard {number} of {len(ends)} that {METADATA} names) is missing").size
        if size < end:
            raise TornError(f"{name} ends {end - size:,} bytes early")
        if size > end and name.endswith(".distcp"):
            longer = name
    return longer


def _check_pieces(metadata: inert.Thing, items: list[_Item]) -> None:
    """Check that each tensor's chunks fill it, and that each of them is stored."""
    stored = Counter(item.name for item in items)
    wanted = metadata.get("state_dict_metadata")
    if not isinstance(wanted, inert.Pairs):
        raise UnclearError(f"{METADATA} does not say what was saved")
    for name, entry in wanted.by_text().items():
        chunks = entry.get("chunks") if isinstance(entry, inert.Thing) else None
        pieces = len(chunks) if isinstance(chunks, list) else 1
        if stored[name] < pieces:
            raise TornError(f"{METADATA} stores {stored[name]} of {plural(pieces, 'chunk')} of {name[:100]}")
        if isinstance(chunks, list):
            _check_tiling(name, _shape(entry.get("size")), chunks)


def _check_tiling(name: str, whole: tuple[int, ...], chunks: list[Any]) -> None:
    volume = 0
    starts = set()
    for chunk in chunks:
        offsets, sizes = _shape(chunk.get("offsets")), _shape(chunk.get("sizes"))
        if len(offsets) != len(whole) or len(sizes) != len(whole):
            raise TornError(f"a chunk of {name[:100]} has another shape than the tensor")
        if any(o + s > w for o, s, w in zip(offsets, sizes, whole, strict=True)):
            raise TornError(f"a chunk of {name[:100]} lies outside of the tensor")
        volume += prod(sizes)
        if prod(sizes):
            if offsets in starts:
                raise TornError(f"two chunks of {name[:100]} begin at the same place")
            starts.add(offsets)
    if volume != prod(whole):
        raise TornError(f"the chunks of {name[:100]} do not fill the tensor")


def _shape(size: Any) -> tuple[int, ...]:
    """The numbers of an inert `torch.Size`."""
    numbers = size.arguments[0] if isinstance(size, inert.Thing) and size.arguments else size
    if not isinstance(numbers, tuple | list) or not all(isinstance(n, int) and n >= 0 for n in numbers):
        raise UnclearError(f"{METADATA} has a shape that does not read as one")
    return tuple(numbers)


def _check_frames(tree: Tree, items: list[_Item]) -> None:
    """Check that the first and the last item of each file begin as they should: a crashed host leaves zeros there."""
    first: dict[str, _Item] = {}
    last: dict[str, _Item] = {}
    for item in items:
        if not item.encoded and item.length:
            first.setdefault(item.file, item)
            if item.offset < first[item.file].offset:
                first[item.file] = item
            if item.file not in last or item.offset > last[item.file].offset:
                last[item.file] = item
    for file, item in first.items():
        if file.endswith(".safetensors"):
            safetensors.check(tree, file)
            continue
        for one in {item, last[file]}:
            archive.check(tree, file, start=one.offset, length=one.length)


def _check_bytes(tree: Tree, items: list[_Item]) -> None:
    for file in {item.file for item in items if item.file.endswith(".safetensors")}:
        safetensors.check(tree, file, deep=True)
    for item in items:
        if item.encoded:
            raise UnclearError(f"{item.file} is compressed or encrypted, and is not read byte by byte")
        if item.length and not item.file.endswith(".safetensors"):
            archive.check(tree, item.file, deep=True, start=item.offset, length=item.length)
