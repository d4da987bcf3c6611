"""Which trainer a run uses, in which image, with what. Free of Prefect, and of what the trainer does."""

from typing import Any

from pydantic import Field

from blocks.clusters.job import Frozen, SecretRef


class Resources(Frozen):
    """What a run's job gets on each node."""

    cpus: float = Field(
        default=1, gt=0, title="CPU cores", description="Parts count, too: 0.5.", json_schema_extra={"position": 0}
    )
    memory_bytes: int | None = Field(
        default=None,
        gt=0,
        title="Memory, bytes",
        description="A job that takes more is stopped. Empty: no limit.",
        json_schema_extra={"position": 1},
    )
    gpus: int = Field(
        default=0, ge=0, title="GPUs", description="0: the trainer runs on CPUs.", json_schema_extra={"position": 2}
    )
    gpu_kind: str | None = Field(
        default=None,
        title="GPU kind",
        description="As the cluster calls it, such as h100. Empty: any.",
        json_schema_extra={"position": 3},
    )
    nodes: int = Field(
        default=1,
        gt=0,
        title="Nodes",
        description="How many, each with all of the above. More than one: on Kubernetes, with a trainer that can.",
        json_schema_extra={"position": 5},
    )
    deadline_seconds: int | None = Field(
        default=None,
        gt=0,
        title="Deadline, seconds",
        description="Time from its start after which an attempt is stopped. Empty: none.",
        json_schema_extra={"position": 4},
    )


class TrainerSettings(Frozen):
    """Which trainer, in which image, with what.

    Args:
        kind: a name from the table of trainers.
        image: None for our own image.
        env: for the trainer; never a secret.
        secrets: environment variables that the cluster looks up.
        options: the kind's own settings; what there are is told by the page about it.
    """

    kind: str
    image: str | None = None
    resources: Resources = Resources()
    env: dict[str, str] = Field(default_factory=dict)
    secrets: dict[str, SecretRef] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
