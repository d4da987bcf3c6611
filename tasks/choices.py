"""The staged models that the Run forms offer. A form is made of the schema that Prefect keeps with a deployment: what
is staged is written into that, as choices beside a field for any other model. What is staged later is taken as well."""

from collections.abc import Iterable, Mapping
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags

from blocks.clusters.port import Cluster

OURS = DeploymentFilter(tags=DeploymentFilterTags(all_=["slipway"]))
OFFERS = {"offers": "staged models"}
"""Marks a parameter that names a model, in its schema. No validator looks at it."""
_TABS = ("staged", "another")


def staged_models(cluster: Cluster, volume: str) -> list[str]:
    """What is staged on a volume, as configs name it: snapshots at their commits, complete weights in models/."""
    snapshots = cluster.call(volume, "snapshots.list", {})["snapshots"]
    found = {f"{one['repo']}@{one['commit']}" for one in snapshots if one["repo_type"] == "model"}
    own = cluster.call(volume, "weights.list", {})["weights"]
    return sorted(found | {f"/volume/{one['path']}" for one in own if one["staged"]})


def offer_models(models: Iterable[str], *, only: bool = False) -> None:
    """Have the Run forms of what is deployed offer these models.

    Args:
        only: and no others; else beside those that they offer.
    """
    wanted = list(models)
    with get_client(sync_client=True) as client:
        for deployment in client.read_deployments(deployment_filter=OURS):
            schema = deployment.parameter_openapi_schema or {}
            if (changed := offering(schema, wanted, only=only)) != schema:
                client.update_deployment(deployment.id, DeploymentUpdate(parameter_openapi_schema=changed))


def offering(schema: Mapping[str, Any], models: Iterable[str], *, only: bool = False) -> dict[str, Any]:
    """A flow's schema whose marked parameters are a choice of these models, or any other one."""
    properties = {
        name: _choice(one, models, only) if one.items() >= OFFERS.items() else one
        for name, one in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties} if properties else dict(schema)


def _choice(field: dict[str, Any], models: Iterable[str], only: bool) -> dict[str, Any]:
    offered, free = _parts(field)
    names = sorted({*models, *(() if only else offered)})
    about = {key: value for key, value in field.items() if key not in (*free, "anyOf")}
    if not names:
        return {**about, **free}
    staged = {"title": _TABS[0], "type": "string", "enum": ["", *names]}  # empty: the config's
    return {**about, "anyOf": [staged, {"title": _TABS[1], **free}]}


def _parts(field: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """What a parameter offers, and what it takes besides: its type and what that has to be like."""
    if "anyOf" not in field:
        return [], {key: field[key] for key in ("type", "pattern", "maxLength") if key in field}
    staged, another = field["anyOf"]
    return staged["enum"][1:], {key: value for key, value in another.items() if key != "title"}
