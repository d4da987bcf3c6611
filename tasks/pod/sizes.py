"""Byte counts for people."""


def size_text(count: float) -> str:
    """Bytes for people: 1536 is `1.5 KiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} bytes" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
