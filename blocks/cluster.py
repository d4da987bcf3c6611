"""A saved cluster of whichever kind: what flows take, and what slipway.toml becomes."""

from typing import Any

from prefect.blocks.core import Block
from pydantic import TypeAdapter

from blocks.kubernetes_cluster import KubernetesCluster
from blocks.local_cluster import LocalCluster
from blocks.settings import KubernetesSection, Settings, pick

ClusterBlock = LocalCluster | KubernetesCluster


def cluster_block(settings: Settings, name: str | None = None, owner: str | None = None) -> ClusterBlock:
    """What `Settings.cluster` connects to, as the block that flows take.

    Raises:
        UsageError: there is no cluster of that name.
    """
    name = name or settings.default_cluster
    found = pick("cluster", name, settings.clusters)
    if isinstance(found, KubernetesSection):
        fields = settings.kubernetes_settings(found).model_dump()
        return KubernetesCluster(name=name, owner=owner or found.owner, **fields)
    return LocalCluster(
        root=str((settings.folder / found.root).expanduser().absolute()),
        name=name,
        owner=owner or found.owner,
        cpus=found.cpus,
        gpus=found.gpus,
        node_cache=str((settings.folder / found.node_cache).expanduser().absolute()) if found.node_cache else None,
        node_cache_size=found.node_cache_size,
        poll_seconds=found.poll_seconds,
    )


def read_cluster(parameter: Any) -> ClusterBlock:
    """The block in a flow run's parameter: itself, a reference to a saved one, or its fields."""
    if isinstance(parameter, dict) and "$ref" in parameter:
        parameter = Block.load_from_ref(parameter["$ref"])
    found: ClusterBlock = TypeAdapter(ClusterBlock).validate_python(parameter)
    return found
