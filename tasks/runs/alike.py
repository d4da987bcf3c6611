"""When two plain values, as JSON and TOML have them, are the same. In Python `1 == True`, in a config it is not."""

from typing import Any


def alike(one: Any, other: Any) -> bool:
    """Whether two values mean the same: `true` is no number, and 1 and 1.0 are one number."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def place_of(values: tuple[Any, ...], value: Any) -> int:
    """Where a value is among others: where it is written the same, else the first that means the same.

    Raises:
        ValueError: it is none of them.
    """
    written = [index for index, one in enumerate(values) if repr(one) == repr(value)]
    if found := written or [index for index, one in enumerate(values) if alike(one, value)]:
        return found[0]
    raise ValueError(f"{value!r} is none of {values!r}")
