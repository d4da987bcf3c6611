"""A directory of the node that runs share copies of weights in, and who says how long a run uses its copy. Pure.

A container that lives as long as its pod (a native sidecar) holds a lock on a file of its own in that directory: the
kernel lets go of it however the pod ends, so that nobody has to give a copy back.
"""

from collections.abc import Sequence
from typing import Any

from blocks.clusters.kubernetes import labels as marks
from blocks.clusters.kubernetes.pods import container
from blocks.clusters.kubernetes.settings import KubernetesSettings
from blocks.clusters.size import parse_size

Json = dict[str, Any]

PLACE = "/node-cache"
_HOLD = (
    f'mkdir -p {PLACE}/alive; find {PLACE}/alive -type f -mmin +60 -exec flock -n {{}} rm -f {{}} ";"; '
    'exec 9>"$SLIPWAY_ALIVE"; flock -x 9; exec sleep infinity'
)
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_IS_HELD = '! flock -n -x "$SLIPWAY_ALIVE" true'


def share_weights(template: Json, settings: KubernetesSettings) -> Json:
    """A job's pod with the node's cache at `PLACE`, as `Job.node_cache` says."""
    spec = template["spec"]
    variables = [
        {"name": "SLIPWAY_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "SLIPWAY_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "SLIPWAY_ALIVE", "value": f"{PLACE}/alive/$(SLIPWAY_POD)"},
        {"name": "SLIPWAY_NODE_CACHE", "value": PLACE},
        {"name": "SLIPWAY_NODE_CACHE_BYTES", "value": str(parse_size(settings.node_cache_size))},
    ]
    alive = container(
        marks.ALIVE,
        settings.image,
        ("sh", "-c", _HOLD),
        settings,
        resources={"requests": {"cpu": "1m", "memory": "8Mi"}},
    )
    alive["restartPolicy"] = "Always"
    alive["startupProbe"] = {"exec": {"command": ["sh", "-c", _IS_HELD]}, "periodSeconds": 1, "failureThreshold": 60}
    spec["initContainers"] = [alive, *spec.get("initContainers", [])]
    for ours in (*spec["initContainers"], *spec["containers"]):
        if ours["name"] in (marks.ALIVE, "init", "main"):
            ours["env"] += variables
            ours["volumeMounts"].append({"name": "node-cache", "mountPath": PLACE, "readOnly": ours["name"] == "main"})
    spec["volumes"].append({"name": "node-cache", "hostPath": {"path": settings.node_cache, "type": "Directory"}})
    return template


def prefer_nodes(template: Json, nodes: Sequence[str]) -> Json:
    """A pod that goes to one of these nodes where there is room on it, and does not wait for that.

    By name, not by label: a node's label for its host may be another one. Less than what keeps the pods of one job
    apart, and more than what a scheduler weighs by itself.
    """
    affinity = template["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    named = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
    terms = [{"weight": 50, "preference": preference} for preference in named]
    theirs = affinity.get(_PREFERRED, [])  # the team's patch; its list is not ours to add to
    affinity[_PREFERRED] = [*theirs, *terms]
    return template
