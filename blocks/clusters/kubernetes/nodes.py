"""What the nodes of a cluster have, as far as we may look."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blocks.clusters.kubernetes.api import Api, ApiError
from blocks.clusters.kubernetes.place import NODES
from blocks.clusters.kubernetes.quantity import read_bytes, read_quantity
from blocks.clusters.kubernetes.settings import KubernetesSettings
from blocks.clusters.port import Capacity

Json = dict[str, Any]

_KEEP_SECONDS = 60


@dataclass(frozen=True)
class Node:
    """One node that our pods can go to."""

    name: str
    labels: Mapping[str, str]
    capacity: Capacity


class Nodes:
    """The nodes that our pods can go to."""

    def __init__(self, api: Api, settings: KubernetesSettings) -> None:
        self._api = api
        self._settings = settings
        self._seen: list[Node] = []
        self._may_look = True
        self._seen_at = float("-inf")

    def limits(self) -> list[Capacity]:
        """What each node has; empty where nodes come on demand, or are not for us to see."""
        return [] if self._settings.autoscales else [node.capacity for node in self.each()]

    @property
    def may_come(self) -> bool:
        """Whether there can be more nodes than `each` knows of."""
        return self._settings.autoscales or not self._may_look

    def capacity(self) -> Capacity:
        """What they have in all."""
        each = [node.capacity for node in self.each()]
        gpus: dict[str, int] = {}
        for node in each:
            for kind, count in node.gpus.items():
                gpus[kind] = gpus.get(kind, 0) + count
        return Capacity(
            cpus=sum(n.cpus for n in each),
            memory_bytes=sum(n.memory_bytes for n in each),
            gpus=gpus,
            is_all=not self.may_come,
        )

    def each(self) -> list[Node]:
        """Those there are; none where they are not for us to see."""
        if time.monotonic() - self._seen_at > _KEEP_SECONDS:
            try:
                nodes = self._api.items(NODES)
            except ApiError as error:
                if error.status != 403:
                    raise
                nodes, self._may_look = [], False
            self._seen = [
                Node(
                    node["metadata"]["name"], node["metadata"].get("labels") or {}, node_capacity(node, self._settings)
                )
                for node in nodes
                if _takes_us(node, self._settings)
            ]
            self._seen_at = time.monotonic()
        return self._seen


def node_capacity(node: Json, settings: KubernetesSettings) -> Capacity:
    """What one node can give to pods."""
    room = node["status"].get("allocatable") or {}
    count = int(read_quantity(room.get(settings.gpu_resource, "0")))
    value = (node["metadata"].get("labels") or {}).get(settings.gpu_kind_label, "gpu")
    kind = next((ours for ours, theirs in settings.gpu_kinds.items() if theirs == value), value)
    return Capacity(
        cpus=float(read_quantity(room.get("cpu", "0"))),
        memory_bytes=read_bytes(room.get("memory", "0")),
        gpus={kind: count} if count else {},
    )


def _takes_us(node: Json, settings: KubernetesSettings) -> bool:
    labels = node["metadata"].get("labels") or {}
    return not node["spec"].get("unschedulable") and settings.node_selector.items() <= labels.items()
