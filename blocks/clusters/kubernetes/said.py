"""What is said of jobs beside the jobs themselves: warning events, and what a queue waits for."""

from functools import cached_property
from typing import Any

from blocks.clusters.kubernetes import kueue
from blocks.clusters.kubernetes.api import Api, ApiError
from blocks.clusters.kubernetes.place import Place

Json = dict[str, Any]


class Said:
    """For one look: each is asked for once for all jobs of the namespace, and only if one of them needs it."""

    def __init__(self, api: Api, place: Place) -> None:
        self._api = api
        self._place = place

    @cached_property
    def warnings(self) -> list[Json]:
        """All warning events, oldest first."""
        try:
            events = self._api.items(self._place.events(), {"fieldSelector": "type=Warning"})
        except ApiError:  # not everybody may
            return []
        return sorted(events, key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""))

    @cached_property
    def waits(self) -> dict[str, str]:
        """UID of a job that a queue has not admitted → why."""
        return kueue.waits(self._api, self._place)
