"""From a job as the port describes it to what a supervisor runs on this machine."""

import platform
import secrets
import time
from pathlib import Path
from typing import Any

from blocks.clusters.errors import UsageError
from blocks.clusters.job import Job
from blocks.clusters.local.environment import NODE_CACHE, SCRATCH, job_environment, translate_command
from blocks.clusters.local.place import Place
from blocks.clusters.local.volumes import LocalVolumes
from blocks.clusters.names import check_name
from blocks.clusters.port import Capacity
from blocks.clusters.size import format_size


def check(job: Job, capacity: Capacity) -> None:
    """Raises: UsageError: a bad name, no command, or more than the machine has in all."""
    check_name("job", job.name)
    if not job.command:
        raise UsageError(f"The job {job.name!r} has no command.", "Say what to run.")
    kinds = [job.gpu_kind] if job.gpu_kind else list(capacity.gpus)
    most = max((capacity.gpus.get(kind, 0) for kind in kinds), default=0)
    wanted = ""
    if job.nodes != 1:
        wanted = f"{job.nodes} nodes"
    elif job.gpus > most:
        wanted = f"{job.gpus} {job.gpu_kind or ''} GPUs".replace("  ", " ")
    elif job.cpus > capacity.cpus:
        wanted = f"{job.cpus:g} CPUs"
    elif (job.memory_bytes or 0) > capacity.memory_bytes:
        wanted = f"{format_size(job.memory_bytes or 0)} of memory"
    if wanted:
        gpus = ", ".join(f"{count} {kind}" for kind, count in capacity.gpus.items()) or "no"
        raise UsageError(
            f"The job {job.name!r} asks for {wanted}, which is more than the local cluster has.",
            f"It is one node with {capacity.cpus:g} CPUs, {format_size(capacity.memory_bytes)} of memory "
            f"and {gpus} GPUs: ask for less, or use another cluster.",
        )


def directories(job: Job, volumes: LocalVolumes, place: Place, node_cache: Path | None) -> dict[str, Path]:
    """Return path in the container → directory here, with what is missing of sub paths made, as a kubelet does.

    Raises:
        NotFoundError: a volume does not exist.
        UsageError: a sub path leads out of its volume.
    """
    found = {SCRATCH: place.scratch}
    if job.node_cache and node_cache is not None:
        node_cache.mkdir(parents=True, exist_ok=True)
        found[NODE_CACHE] = node_cache
    for mount in job.mounts:
        volume = volumes.check_mountable(mount.volume)
        directory = volume / mount.sub_path.lstrip("/")
        if not directory.resolve().is_relative_to(volume.resolve()):
            raise UsageError(
                f"The sub path {mount.sub_path!r} leads out of the volume {mount.volume!r}.",
                "Name a directory on it.",
            )
        directory.mkdir(parents=True, exist_ok=True)
        found[mount.mount_path.rstrip("/") or "/"] = directory
    return found


def record(job: Job, mounted: dict[str, Path], capacity: Capacity, project: Path) -> dict[str, Any]:
    """What is kept of a job: for lists, and under `launch` for its supervisor. No secret is in it.

    Args:
        job: the job.
        mounted: path in the container → directory here.
        capacity: what the machine has in all.
        project: the directory to import `tasks` from.
    """
    return {
        "uid": secrets.token_hex(8),
        "request_hash": job.request_hash,
        "submitted_at": time.time(),
        "labels": job.labels,
        "mounts": [mount.model_dump() for mount in job.mounts],
        "launch": {
            "command": translate_command(job.command, mounted),
            "init_command": translate_command(job.init_command, mounted),
            "env": job_environment({**_cache_environment(job, capacity), **job.env}, mounted, project),
            "wants": {
                "cpus": job.cpus,
                "memory_bytes": job.memory_bytes or 0,
                "gpus": job.gpus,
                "gpu_kind": job.gpu_kind if job.gpus else None,
            },
            "room": {
                "cpus": capacity.cpus,
                "memory_bytes": capacity.memory_bytes,
                "gpus": capacity.gpus,
            },
            "deadline_seconds": job.deadline_seconds,
        },
    }


def _cache_environment(job: Job, capacity: Capacity) -> dict[str, str]:
    if not job.node_cache or not capacity.node_cache_bytes:
        return {}
    return {
        "SLIPWAY_NODE": platform.node(),
        "SLIPWAY_NODE_CACHE": NODE_CACHE,
        "SLIPWAY_NODE_CACHE_BYTES": str(capacity.node_cache_bytes),
    }
