"""Which version of Slipway this is: part of what is recorded."""

from importlib.metadata import PackageNotFoundError, version


def our_version() -> str:
    try:
        return version("slipway")
    except PackageNotFoundError:
        return "unknown"
