"""Saves what slipway.toml says as Prefect blocks, which is what flows take as parameters."""

from collections.abc import Mapping
from typing import Any

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentUpdate

from blocks.bucket import Bucket, document_name
from blocks.cluster import cluster_block
from blocks.hub import HuggingFaceHub
from blocks.hub_access import HubAccess
from blocks.settings import Settings, read_settings
from blocks.trainer import Trainer
from tasks.choices import OURS, offer_models, staged_models
from tasks.errors import EXPECTED


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


def finish_forms(settings: Settings) -> None:
    """Have the Run forms of what is deployed show its blocks as selected, and offer the models that are staged."""
    select_blocks()
    staged: set[str] = set()
    all_seen = True
    for name in settings.clusters:
        try:
            staged |= set(staged_models(settings.cluster(name)))
        except EXPECTED:  # it can not be looked at from here: what the forms offered stays
            all_seen = False
    offer_models(staged, only=all_seen)


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


def main() -> list[str]:
    settings = read_settings()
    saved = register(settings)
    finish_forms(settings)
    return saved
