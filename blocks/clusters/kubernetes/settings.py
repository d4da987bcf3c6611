"""What a team says once about its Kubernetes cluster. Free of Kubernetes' client and of Prefect."""

from typing import Any, Literal

from pydantic import Field

from blocks.clusters.job import Frozen


class KubernetesSettings(Frozen):
    """How to reach a cluster, and how pods and claims are made there.

    Args:
        image: our own image, which runs what works beside the data.
        context: a context of the kubeconfig; None for its current one.
        kubeconfig: path of a kubeconfig; None for `$KUBECONFIG`, `~/.kube/config`, or the pod's own account.
        storage_class: of new volumes; None for the cluster's default.
        access_mode: of new volumes.
        gpu_resource: name of the GPU resource, as the device plugin calls it.
        gpu_kind_label: the node label that says which GPUs a node has.
        gpu_kinds: our name of a GPU kind → that label's value; a kind that is not here is the value itself.
        autoscales: nodes come when they are needed, so that asking for more than there is now is no mistake.
        uid: user and group of everything that runs beside the data.
        node_selector, tolerations, priority_class, pull_secrets: of every pod of ours.
        image_pull_policy: of every container of ours.
        pod_patch: a strategic merge patch of every pod's `{"metadata": …, "spec": …}`.
        queue: a Kueue local queue for jobs that name none.
        jobset: whether a job of several nodes is a JobSet: where the cluster has that for us, always, or never.
        node_cache: a directory of each node that runs share copies of weights in; it is there and belongs to `uid`.
        node_cache_size: its limit, such as "200Gi".
        session_idle_seconds: after which an internal session ends itself.
        shell_idle_seconds: after which a person's session ends itself where nobody types and nothing runs.
        image_grace_seconds: how long an image that can not be pulled is waited for.
        queue_grace_seconds: how long a job may wait for room before it is given up; None for ever.
        gone_grace_seconds: how long a pod that was told to go is waited for; after that its node counts as lost.
        poll_seconds: how often to look while following a run.
    """

    image: str
    context: str | None = None
    kubeconfig: str | None = None
    storage_class: str | None = None
    access_mode: Literal["ReadWriteMany", "ReadWriteOnce"] = "ReadWriteMany"
    gpu_resource: str = "nvidia.com/gpu"
    gpu_kind_label: str = "nvidia.com/gpu.product"
    gpu_kinds: dict[str, str] = Field(default_factory=dict)
    autoscales: bool = False
    uid: int = Field(default=1000, gt=0)
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[dict[str, Any], ...] = ()
    priority_class: str | None = None
    pull_secrets: tuple[str, ...] = ()
    image_pull_policy: Literal["IfNotPresent", "Always", "Never"] = "IfNotPresent"
    pod_patch: dict[str, Any] = Field(default_factory=dict)
    queue: str | None = None
    jobset: Literal["auto", "always", "never"] = "auto"
    node_cache: str | None = Field(default=None, pattern="^/.")
    node_cache_size: str = Field(default="100Gi", pattern=r"^[1-9][0-9]*(Mi|Gi|Ti)$")
    session_idle_seconds: int = Field(default=600, gt=0)
    shell_idle_seconds: int = Field(default=3600, gt=0)
    image_grace_seconds: int = Field(default=600, ge=0)
    queue_grace_seconds: int | None = Field(default=None, gt=0)
    gone_grace_seconds: int = Field(default=300, gt=0)
    poll_seconds: float = Field(default=5, gt=0)
