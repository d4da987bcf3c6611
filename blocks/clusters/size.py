"""Sizes of volumes, as people and Kubernetes write them: `500Gi`, `2Ti`."""

import re

from blocks.clusters.errors import UsageError

DEFAULT_SIZE = "1Ti"
LARGEST_SIZE = "10Ti"
_UNITS = {"Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_SIZE = re.compile(r"([1-9][0-9]*)(Mi|Gi|Ti)")


def parse_size(text: str) -> int:
    """Return a volume size in bytes.

    Args:
        text: a whole number and a unit, `Mi`, `Gi` or `Ti` (powers of 1024); `10Ti` at most.

    Raises:
        UsageError: the text is no such size, or is over the largest.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{text!r} is not a volume size.",
            "Write a whole number above zero and a unit, Mi, Gi or Ti: 500Gi, 2Ti.",
        )
    size = int(match[1]) * _UNITS[match[2]]
    if size > 10 * _UNITS["Ti"]:
        raise UsageError(f"{text} is over the largest volume size.", f"Ask for {LARGEST_SIZE} at most.")
    return size


def check_size(size: int) -> None:
    """Raises: UsageError: no volume can have that many bytes."""
    if size <= 0:
        raise UsageError(f"{size} bytes is not a volume size.", "Ask for more than nothing: 500Gi, 2Ti.")
    if size > parse_size(LARGEST_SIZE):
        raise UsageError(f"{format_size(size)} is over the largest volume size.", f"Ask for {LARGEST_SIZE} at most.")


def format_size(size: int) -> str:
    """Return a size in the largest unit that says it exactly, else with one decimal: `1Ti`, `1.4Gi`, `312B`."""
    for unit, factor in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if size >= factor:
            return f"{size // factor}{unit}" if size % factor == 0 else f"{size / factor:.1f}{unit}"
    return f"{size}B"
