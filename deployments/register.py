"""Saves what slipway.toml says as Prefect blocks, which is what flows take as parameters."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentUpdate

from blocks.bucket import Bucket, document_name
from blocks.cluster import cluster_block
from blocks.clusters.port import Cluster
from blocks.hub import HuggingFaceHub
from blocks.hub_access import HubAccess
from blocks.settings import Settings, read_settings
from blocks.trainer import Trainer
from tasks.choices import OURS, offer_models, staged_models
from tasks.errors import EXPECTED
from tasks.stages.volume import usable_volumes

_AT_ONCE = 4
"""Volumes that are looked at together: each takes a small pod on Kubernetes."""


def register(settings: Settings, more_hubs: Mapping[str, HubAccess] | None = None) -> list[str]:
    """Save every cluster, hub, bucket and trainer of the settings; a block of that name is overwritten.

    Args:
        more_hubs: hubs that are not in the settings, such as the demo's.

    Returns:
        The names of the documents, as `type/name`.
    """
    saved = []
    for name in settings.clusters:
        block = cluster_block(settings, name)
        block.save(name, overwrite=True)
        saved.append(f"{block.get_block_type_slug()}/{name}")
    for name, hub in {**settings.hubs, **(more_hubs or {})}.items():
        HuggingFaceHub(endpoint=hub.endpoint, token=hub.token).save(name, overwrite=True)
        saved.append(f"hugging-face-hub/{name}")
    for name, bucket in settings.buckets.items():
        Bucket(**bucket.model_dump()).save(document_name(name), overwrite=True)
        saved.append(f"bucket/{document_name(name)}")
    for name, trainer in settings.trainers.items():
        Trainer(**trainer.model_dump()).save(name, overwrite=True)
        saved.append(f"trainer/{name}")
    return saved


def finish_forms(settings: Settings, note: Callable[[str], None] = lambda text: None) -> None:
    """Have the Run forms of what is deployed show its blocks as selected, and offer the models that are staged.

    Every volume is looked at for those, which takes a session each on Kubernetes: several at a time.

    Args:
        note: told what was looked at, and what could not be.
    """
    select_blocks()
    volumes: list[tuple[Cluster, str]] = []
    unseen = 0
    for name in settings.clusters:
        try:
            cluster = settings.cluster(name)
            volumes += [(cluster, volume) for volume in usable_volumes(cluster)]
        except EXPECTED as error:  # it can not be looked at from here: what the forms offered stays
            note(f"Cluster {name} is not looked at: {error.what}")
            unseen += 1
    staged: set[str] = set()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        looks = {pool.submit(staged_models, *place): place for place in volumes}
        try:
            for done, look in enumerate(as_completed(looks), start=1):
                cluster, volume = looks[look]
                try:
                    staged |= set(look.result())
                except EXPECTED as error:
                    note(f"Volume {volume} of cluster {cluster.name} is not looked at: {error.what}")
                    unseen += 1
                else:
                    note(f"looked at volume {volume} of cluster {cluster.name}, {done} of {len(volumes)}")
        finally:  # whoever is interrupted waits for no more than what has begun
            pool.shutdown(wait=False, cancel_futures=True)
    offer_models(staged, only=not unseen)


def select_blocks() -> None:
    """Have the Run forms of what is deployed show its blocks as selected.

    prefect.yaml can only name a block (`block_document_slug`), which runs, but the forms show such a picker as empty:
    they know a block by the id of its document.
    """
    with get_client(sync_client=True) as client:
        for deployment in client.read_deployments(deployment_filter=OURS):
            parameters = {key: _with_id(client, value) for key, value in deployment.parameters.items()}
            if parameters != deployment.parameters:
                client.update_deployment(deployment.id, DeploymentUpdate(parameters=parameters))


def _with_id(client: SyncPrefectClient, parameter: Any) -> Any:
    match parameter:
        case {"$ref": {"block_document_slug": str(slug)}}:
            kind, name = slug.split("/")
            document = client.read_block_document_by_name(name, block_type_slug=kind)
            return {"$ref": {"block_document_id": str(document.id)}}
    return parameter


def main(note: Callable[[str], None] = lambda text: None, *, look: bool = True) -> list[str]:
    """Save the settings as blocks and finish the Run forms; the names of the blocks.

    Args:
        note: as in `finish_forms`.
        look: have the forms offer what is staged; without, they go on to offer what they do.
    """
    settings = read_settings()
    saved = register(settings)
    if look:
        finish_forms(settings, note)
    else:
        select_blocks()
    return saved
