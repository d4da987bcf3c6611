"""How long things have lasted, for limits. The time of day can be set, so it is asked only about what was before this
process looked: from there on the monotonic clock measures."""

import time
from datetime import UTC, datetime
from typing import Any


class Lasting:
    """Measures by name; the first question about one begins its measurement."""

    def __init__(self) -> None:
        self._begun: dict[str, float] = {}

    def seconds(self, name: str, since: datetime, before: float = 0.0) -> float:
        """How long something has lasted.

        Args:
            since: when it began, or was last measured, by the time of day; asked about once. In the future, since a
                clock was set back or another machine's is ahead, it began now.
            before: seconds that were measured until then.
        """
        if name not in self._begun:
            earlier = before + max(0.0, (datetime.now(UTC) - since).total_seconds())
            self._begun[name] = time.monotonic() - earlier
        return time.monotonic() - self._begun[name]

    def forget(self, but: set[str]) -> None:
        self._begun = {name: begun for name, begun in self._begun.items() if name in but}


def measured(driver: dict[str, Any] | None, created_at: datetime) -> tuple[datetime, float]:
    """When a sweep was last measured, and the seconds that it had lasted then.

    Args:
        driver: the sign of life of whoever drove it last, if anybody did.
    """
    if driver and isinstance(driver.get("seconds"), int | float):
        return datetime.fromisoformat(driver["at"]), float(driver["seconds"])
    return created_at, 0.0
