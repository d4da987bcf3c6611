"""The job of an attempt: the trainer's command, the platform's mounts, and an environment that never asks the Hub."""

import json
from typing import Any

from blocks.clusters.job import Job, Mount
from blocks.clusters.names import fit_name
from blocks.trainer_settings import TrainerSettings
from tasks.runs.records import Attempt, PlanRecord
from tasks.runs.request import RunRequest, hash_request

RUN_LABEL = "slipway.dev/run"
VOLUME_LABEL = "slipway.dev/volume"
ATTEMPT_LABEL = "slipway.dev/attempt"
_LONGEST = 52  # Kubernetes appends to a job's name to name its pods

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_CACHE": "/volume/hub",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
"""What a reader of staged snapshots needs."""

CACHES = {
    "HF_HOME": "/scratch/huggingface",
    "HF_DATASETS_CACHE": "/scratch/huggingface/datasets",
    "XDG_CACHE_HOME": "/scratch/cache",
    "TRITON_CACHE_DIR": "/scratch/cache/triton",
    "TORCHINDUCTOR_CACHE_DIR": "/scratch/cache/inductor",
    "PIP_CACHE_DIR": "/scratch/cache/pip",
}
"""Caches that libraries like to write; the volume is read-only to a trainer."""


def job_name(plan: PlanRecord, attempt: int) -> str:
    """A name that no other run's job has: not one whose volume and run read alike once they are joined, and not one of
    that name on a volume that was deleted and made again."""
    mark = hash_request({"volume": plan.volume, "run": plan.run, "planned": plan.created_at.isoformat()})[:8]
    return fit_name(fit_name(plan.volume, plan.run, longest=_LONGEST - 16), mark, f"a{attempt}")


def job_asked(request: RunRequest) -> Job:
    """What a run's jobs will ask of a cluster, as far as it is known before the run is planned."""
    settings = request.trainer
    return Job(
        name=fit_name(request.volume, request.run, longest=_LONGEST),
        request_hash="",
        image=settings.image,
        init_command=("true",),
        command=("true",),
        node_cache=request.weights.placement == "node",
        secrets=settings.secrets,
        mounts=(Mount(volume=request.volume),),
        **_resources(settings),
    )


def job_of(plan: PlanRecord, attempt: Attempt) -> Job:
    """The job of an attempt on record: the same job whoever builds it, whenever."""
    trainer, settings, number = plan.request.adapter, plan.request.trainer, attempt.attempt
    own = f"runs/{plan.run}"
    return Job(
        name=job_name(plan, number),
        request_hash=hash_request(
            {"volume": plan.volume, "run": plan.run, "attempt": number, "asked": plan.request_hash}
        ),
        image=settings.image,
        init_command=(
            *("python", "-m", "tasks.pod.program", "--quiet", "runs.render"),
            json.dumps({"run": plan.run, "attempt": number}),
        ),
        command=tuple(
            trainer.command(
                plan.config,
                f"/scratch/{trainer.config_name}",
                gpus=settings.resources.gpus,
                nodes=settings.resources.nodes,
            )
        ),
        node_cache=plan.request.weights.placement == "node",
        preferred_nodes=attempt.preferred_nodes,
        env={**OFFLINE, **CACHES, **settings.env},
        secrets=settings.secrets,
        mounts=(
            Mount(volume=plan.volume),
            Mount(volume=plan.volume, sub_path=own, mount_path=f"/volume/{own}", read_only=False),
        ),
        labels={VOLUME_LABEL: plan.volume, RUN_LABEL: plan.run, ATTEMPT_LABEL: str(number)},
        **_resources(settings),
    )


def _resources(settings: TrainerSettings) -> dict[str, Any]:
    """All of a trainer's resources: a job has them by the same names."""
    return settings.resources.model_dump()
