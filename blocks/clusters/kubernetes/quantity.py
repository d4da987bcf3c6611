"""Kubernetes' quantities (`500Gi`, `1e3`, `250m`) as numbers. Pure."""

import re
from decimal import Decimal

_FACTORS = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}
_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGTPE]i?|[KMGTPE]i|)")


def read_quantity(text: str) -> Decimal:
    """Raises: ValueError: it is no quantity."""
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in _FACTORS:
        raise ValueError(f"{text!r} is no quantity")
    return Decimal(match[1]) * _FACTORS[match[2]]


def read_bytes(text: str) -> int:
    return int(read_quantity(text))


def write_bytes(count: int) -> str:
    """In the largest unit that says it exactly."""
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        factor = int(_FACTORS[unit])
        if count and count % factor == 0:
            return f"{count // factor}{unit}"
    return str(count)


def write_cpus(cpus: float) -> str:
    return f"{max(1, round(cpus * 1000))}m"
