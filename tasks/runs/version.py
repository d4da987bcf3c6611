"""Which version of Slipway this is."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def slipway_version() -> str:
    """What records say was installed when they were written."""
    try:
        return version("slipway")
    except PackageNotFoundError:
        return "unknown"
