"""What every pod of ours has in common, from the settings. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from blocks.clusters.job import SecretRef
from blocks.clusters.kubernetes.labels import claim_label
from blocks.clusters.kubernetes.patch import merge
from blocks.clusters.kubernetes.settings import KubernetesSettings

Json = dict[str, Any]

SCRATCH = {"name": "scratch", "mountPath": "/scratch"}
STOP_GRACE_SECONDS = 30
_CONTAINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def container(
    name: str,
    image: str,
    command: Sequence[str],
    settings: KubernetesSettings,
    *,
    env: Mapping[str, str] | None = None,
    secrets: Mapping[str, SecretRef] | None = None,
    mounts: Sequence[Json] = (),
    resources: Json | None = None,
) -> Json:
    """A container. Secrets are named to the cluster, never read."""
    variables = {"HOME": "/scratch", "SLIPWAY_SCRATCH": "/scratch", **(env or {})}
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": settings.image_pull_policy,
        # Kubernetes expands $(NAME) in commands and values, and $$ is how to write a dollar sign.
        "command": [_literal(word) for word in command],
        "env": [
            *({"name": key, "value": _literal(value)} for key, value in variables.items()),
            *(
                {"name": key, "valueFrom": {"secretKeyRef": {"name": ref.name, "key": ref.key}}}
                for key, ref in (secrets or {}).items()
            ),
        ],
        "volumeMounts": [SCRATCH, *mounts],
        "resources": resources or {},
        "securityContext": _CONTAINED,
        # The end of the log comes with the status, so that nobody has to ask for it, and it outlives the log.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def pod(
    settings: KubernetesSettings,
    metadata: Json,
    containers: Sequence[Json],
    *,
    init: Sequence[Json] = (),
    claims: Mapping[str, str],
    single_node_claims: Sequence[str] = (),
    scratch_bytes: int | None = None,
    extra: Json | None = None,
) -> Json:
    """A pod template `{"metadata", "spec"}` with the team's patch applied.

    Args:
        claims: name of a pod's volume → the claim that it mounts.
        single_node_claims: those that only one node can mount at a time: pods that mount one go where it is mounted.
        scratch_bytes: of /scratch; None for no limit.
        extra: more of the spec.
    """
    scratch = {"sizeLimit": str(scratch_bytes)} if scratch_bytes else {}
    labels = {claim_label(claim): "mounted" for claim in claims.values()}
    spec: Json = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # The pause process is pid 1: it reaps, and signals without a handler do to a program what they do elsewhere.
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": STOP_GRACE_SECONDS,
        "securityContext": {
            "runAsUser": settings.uid,
            "runAsGroup": settings.uid,
            "runAsNonRoot": True,
            "fsGroup": settings.uid,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": list(containers),
        "volumes": [
            {"name": "scratch", "emptyDir": scratch},
            *({"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, claim in claims.items()),
        ],
    }
    if init:
        spec["initContainers"] = list(init)
    if settings.node_selector:
        spec["nodeSelector"] = dict(settings.node_selector)
    if settings.tolerations:
        spec["tolerations"] = list(settings.tolerations)
    if settings.priority_class:
        spec["priorityClassName"] = settings.priority_class
    if settings.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in settings.pull_secrets]
    if single_node_claims:
        spec["affinity"] = {"podAffinity": _beside(single_node_claims)}
    template = {"metadata": {**metadata, "labels": {**metadata.get("labels", {}), **labels}}, "spec": spec}
    return merge(merge(template, {"spec": extra or {}}), settings.pod_patch)


def _beside(claims: Sequence[str]) -> Json:
    """On the node of the other pods that mount these claims. The first one matches itself, and may go anywhere."""
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {claim_label(claim): "mounted"}}, "topologyKey": "kubernetes.io/hostname"}
            for claim in claims
        ]
    }


def _literal(text: str) -> str:
    return text.replace("$(", "$$(")
