"""A saved Kubernetes cluster: one namespace, and how pods and claims are made in it."""

from typing import Any, Literal

from prefect.blocks.core import Block
from prefect.exceptions import MissingContextError
from prefect.logging import get_logger, get_run_logger
from pydantic import Field

from blocks.clusters.kubernetes.cluster import KubernetesCluster as Namespace
from blocks.clusters.kubernetes.settings import KubernetesSettings
from blocks.clusters.port import Cluster
from blocks.clusters.strict import Strict


class KubernetesCluster(Strict, Block):
    """Claims for volumes and Jobs for runs, in one namespace."""

    _block_type_name = "Slipway Kubernetes cluster"
    _block_type_slug = "kubernetes-cluster"
    _description = "Holds volumes as PersistentVolumeClaims and runs jobs as pods, in the owner's namespace."

    owner: str = Field(
        title="Owner",
        description="Whose volumes and runs: the namespace that holds them.",
        pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
        json_schema_extra={"position": 0},
    )
    image: str = Field(
        title="Image",
        description="Slipway's own image, which runs what works beside the data.",
        json_schema_extra={"position": 1},
    )
    name: str = Field(
        default="kubernetes", title="Name", description="Shown in lists.", json_schema_extra={"position": 2}
    )
    context: str | None = Field(
        default=None,
        title="Context",
        description="Of the kubeconfig. Empty: its current one, or the account of the worker's own pod.",
        json_schema_extra={"position": 3},
    )
    kubeconfig: str | None = Field(
        default=None,
        title="Kubeconfig",
        description="Path on the worker's machine. Empty: $KUBECONFIG or ~/.kube/config.",
        json_schema_extra={"position": 4},
    )
    storage_class: str | None = Field(
        default=None,
        title="Storage class",
        description="Of new volumes. Empty: the cluster's default.",
        json_schema_extra={"position": 5},
    )
    access_mode: Literal["ReadWriteMany", "ReadWriteOnce"] = Field(
        default="ReadWriteMany",
        title="Access mode",
        description="Of new volumes. ReadWriteOnce: one node at a time.",
        json_schema_extra={"position": 6},
    )
    gpu_resource: str = Field(
        default="nvidia.com/gpu",
        title="GPU resource",
        description="As the device plugin calls it.",
        json_schema_extra={"position": 7},
    )
    gpu_kind_label: str = Field(
        default="nvidia.com/gpu.product",
        title="GPU kind label",
        description="The node label that says which GPUs a node has.",
        json_schema_extra={"position": 8},
    )
    gpu_kinds: dict[str, str] = Field(
        default_factory=dict,
        title="GPU kinds",
        description='Your name of a kind and that label\'s value: {"h100": "NVIDIA-H100-80GB-HBM3"}.',
        json_schema_extra={"position": 9},
    )
    autoscales: bool = Field(
        default=False,
        title="Autoscales",
        description="Nodes come when they are needed.",
        json_schema_extra={"position": 10},
    )
    uid: int = Field(
        default=1000,
        gt=0,
        title="User id",
        description="User and group of everything that runs beside the data.",
        json_schema_extra={"position": 11},
    )
    node_selector: dict[str, str] = Field(
        default_factory=dict, title="Node selector", description="Of every pod.", json_schema_extra={"position": 12}
    )
    tolerations: list[dict[str, Any]] = Field(
        default_factory=list, title="Tolerations", description="Of every pod.", json_schema_extra={"position": 13}
    )
    priority_class: str | None = Field(
        default=None, title="Priority class", description="Of every pod.", json_schema_extra={"position": 14}
    )
    pull_secrets: list[str] = Field(
        default_factory=list,
        title="Pull secrets",
        description="Names of secrets for private registries.",
        json_schema_extra={"position": 15},
    )
    image_pull_policy: Literal["IfNotPresent", "Always", "Never"] = Field(
        default="IfNotPresent",
        title="Image pull policy",
        description="Of every container.",
        json_schema_extra={"position": 16},
    )
    pod_patch: dict[str, Any] = Field(
        default_factory=dict,
        title="Pod patch",
        description='A strategic merge patch of every pod: {"spec": {"hostNetwork": true}}.',
        json_schema_extra={"position": 17},
    )
    queue: str | None = Field(
        default=None,
        title="Queue",
        description="A Kueue local queue for jobs that name none.",
        json_schema_extra={"position": 18},
    )
    poll_seconds: float = Field(
        default=5,
        gt=0,
        title="Look every … seconds",
        description="How often a run is looked at.",
        json_schema_extra={"position": 19},
    )

    image_grace_seconds: int = Field(
        default=600,
        ge=0,
        title="Wait for images, seconds",
        description="How long an image that can not be pulled is waited for.",
        json_schema_extra={"position": 20},
    )
    queue_grace_seconds: int | None = Field(
        default=None,
        gt=0,
        title="Wait for room, seconds",
        description="How long a job may wait for a node. Empty: for ever.",
        json_schema_extra={"position": 21},
    )
    gone_grace_seconds: int = Field(
        default=300,
        gt=0,
        title="Wait for lost nodes, seconds",
        description="How long a pod that was told to go is waited for. After that its node counts as lost.",
        json_schema_extra={"position": 26},
    )
    jobset: Literal["auto", "always", "never"] = Field(
        default="auto",
        title="JobSet",
        description="Whether a job of several nodes is a JobSet. Auto: where the cluster has that for its user.",
        json_schema_extra={"position": 27},
    )
    session_idle_seconds: int = Field(
        default=600,
        gt=0,
        title="Keep sessions, seconds",
        description="After which a session that was opened for a look-up ends itself.",
        json_schema_extra={"position": 22},
    )

    shell_idle_seconds: int = Field(
        default=3600,
        gt=0,
        title="Keep shells, seconds",
        description="After which a person's session ends itself where nobody types and nothing runs.",
        json_schema_extra={"position": 23},
    )

    node_cache: str | None = Field(
        default=None,
        title="Node cache",
        description="A directory of each node, belonging to the user above, in which runs share copies of weights.",
        json_schema_extra={"position": 24},
    )
    node_cache_size: str = Field(
        default="100Gi",
        title="Node cache, size",
        description="Its limit.",
        pattern=r"^[1-9][0-9]*(Mi|Gi|Ti)$",
        json_schema_extra={"position": 25},
    )

    def connect(self) -> Cluster:
        """The cluster that this block describes."""
        settings = KubernetesSettings.model_validate(
            {key: getattr(self, key) for key in KubernetesSettings.model_fields}
        )
        return Namespace(settings, name=self.name, owner=self.owner, say=_warn)


def _warn(text: str) -> None:
    """Into the flow run's log, where there is one."""
    try:
        get_run_logger().warning(text)
    except MissingContextError:  # in a thread of a step's
        get_logger("slipway").warning(text)
