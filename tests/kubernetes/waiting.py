"""Waits for what a cluster does in its own time."""

import time
from collections.abc import Callable


def wait_until(look: Callable[[], bool], seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < until
        time.sleep(0.5)
