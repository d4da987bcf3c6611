"""Saves what slipway.toml says as Prefect blocks, which is what flows take as parameters."""

from collections.abc import Mapping

from blocks.hub import HuggingFaceHub
from blocks.hub_access import HubAccess
from blocks.local_cluster import LocalCluster
from blocks.settings import Settings, read_settings
from blocks.trainer import Trainer


def register(settings: Settings, more_hubs: Mapping[str, HubAccess] | None = None) -> list[str]:
    """Save every cluster, hub and trainer of the settings; a block of that name is overwritten.

    Args:
        more_hubs: hubs that are not in the settings, such as the demo's.

    Returns:
        The names of the documents, as `type/name`.
    """
    saved = []
    for name, cluster in settings.clusters.items():
        root = str((settings.folder / cluster.root).expanduser())
        LocalCluster(
            root=root,
            name=name,
            owner=cluster.owner,
            cpus=cluster.cpus,
            gpus=cluster.gpus,
            poll_seconds=cluster.poll_seconds,
        ).save(name, overwrite=True)
        saved.append(f"local-cluster/{name}")
    for name, hub in {**settings.hubs, **(more_hubs or {})}.items():
        HuggingFaceHub(endpoint=hub.endpoint, token=hub.token).save(name, overwrite=True)
        saved.append(f"hugging-face-hub/{name}")
    for name, trainer in settings.trainers.items():
        Trainer(**trainer.model_dump()).save(name, overwrite=True)
        saved.append(f"trainer/{name}")
    return saved


def main() -> list[str]:
    return register(read_settings())
