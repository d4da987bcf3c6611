"""What is refused before a job is made: what can never work, and what is not there. Reads no secret's value."""

import time
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from blocks.clusters.errors import ConflictError, NotFoundError, UsageError
from blocks.clusters.job import Job, SecretRef
from blocks.clusters.kubernetes.api import Api, ApiError
from blocks.clusters.kubernetes.jobset import child_name
from blocks.clusters.kubernetes.place import Place
from blocks.clusters.kubernetes.rendezvous import hosts
from blocks.clusters.names import check_name
from blocks.clusters.port import Capacity
from blocks.clusters.size import format_size

Json = dict[str, Any]
_LONGEST_GANG = 56  # each pod's host name is the job's with its number
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def check_job(job: Job) -> None:
    """Raises: UsageError: a bad name, no command, a sub path that leads out of its volume, no node."""
    check_name("job", job.name)
    if job.nodes > 1 and len(job.name) > _LONGEST_GANG:
        raise UsageError(
            f"The name {job.name!r} is too long for a job of several nodes.", f"{_LONGEST_GANG} characters at most."
        )
    if not job.command:
        raise UsageError(f"The job {job.name!r} has no command.", "Say what to run.")
    for mount in job.mounts:
        if ".." in PurePosixPath(mount.sub_path).parts:
            raise UsageError(
                f"The sub path {mount.sub_path!r} leads out of the volume {mount.volume!r}.", "Name a directory on it."
            )
    if job.nodes < 1:
        raise UsageError(f"The job {job.name!r} asks for {job.nodes} nodes.", "Ask for one, or more.")


def check_room(job: Job, nodes: list[Capacity]) -> None:
    """Raises: UsageError: no node there is could ever take it."""
    able = sum(fits(job, node) for node in nodes)
    if able and able < job.nodes and job.gpus:
        raise UsageError(
            f"The job {job.name!r} asks for {job.nodes} nodes, and {able} of the cluster's have what it asks for.",
            "Ask for fewer; where nodes come on demand, set autoscales in its settings.",
        )
    if not nodes or able:
        return
    wanted = [f"{job.cpus:g} CPUs"]
    if job.memory_bytes:
        wanted.append(f"{format_size(job.memory_bytes)} of memory")
    if job.gpus:
        wanted.append(f"{job.gpus} {job.gpu_kind or ''} GPUs".replace("  ", " "))
    largest = "; ".join(sorted({_describe(node) for node in nodes})[:5])
    raise UsageError(
        f"The job {job.name!r} asks for {', '.join(wanted)}, which no node of the cluster has.",
        f"Nodes there have: {largest}. Ask for less; where nodes come on demand, set autoscales in its settings.",
    )


def fits(job: Job, node: Capacity) -> bool:
    """Whether an empty node of that size could take the job's pod."""
    gpus = sum(n for kind, n in node.gpus.items() if job.gpu_kind in (None, kind))
    return job.cpus <= node.cpus and (job.memory_bytes or 0) <= node.memory_bytes and job.gpus <= gpus


def _describe(node: Capacity) -> str:
    gpus = ", ".join(f"{n} {kind}" for kind, n in node.gpus.items()) or "no"
    return f"{node.cpus:g} CPUs, {format_size(node.memory_bytes)} of memory and {gpus} GPUs"


def check_claims(volumes: set[str], get: Callable[[str], Json], nodes: int = 1) -> list[str]:
    """Return those volumes that only one node can mount at a time.

    Args:
        get: a claim by name; raises NotFoundError.
        nodes: how many nodes are to mount them at a time.

    Raises:
        NotFoundError: one is not there.
        ConflictError: one is being deleted.
        UsageError: one node can mount it, and several are to; only one pod can mount it.
    """
    single = []
    for volume in sorted(volumes):
        claim = get(volume)
        if claim["metadata"].get("deletionTimestamp"):
            raise ConflictError(f"The volume {volume!r} is being deleted.", "Choose another one.")
        modes = claim["spec"].get("accessModes") or ()
        if list(modes) == ["ReadWriteOncePod"]:
            raise UsageError(
                f"Only one pod at a time can mount the volume {volume!r} (ReadWriteOncePod).",
                "A run and what looks at it are two: use a volume with ReadWriteOnce or ReadWriteMany.",
            )
        if "ReadWriteMany" not in modes:
            single.append(volume)
    if single and nodes > 1:
        raise UsageError(
            f"The job asks for {nodes} nodes, and only one at a time can mount {', '.join(single)} (ReadWriteOnce).",
            "Ask for one node, or use a volume with ReadWriteMany.",
        )
    return single


def check_secrets(secrets: dict[str, SecretRef], api: Api, place: Place) -> None:
    """Raises: NotFoundError: one is not there. Whether it has the key is the kubelet's to say."""
    for ref in {ref.name: ref for ref in secrets.values()}.values():
        try:
            api.get(place.secret(ref.name), accept=_METADATA)
        except ApiError as error:
            if error.status == 404:
                raise NotFoundError(
                    f"The namespace {place.owner!r} has no secret {ref.name!r} (key {ref.key!r}).",
                    f"Create it: kubectl -n {place.owner} create secret generic {ref.name} "
                    f"--from-literal={ref.key}=...",
                ) from None
            if error.status != 403:  # not everybody may look at secrets
                raise


def check_names(name: str, api: Api, place: Place, *, as_jobset: bool) -> None:
    """Of a job of several nodes: what is made for it has names, too. A Service of another's would lead its pods astray,
    and a Job of another's would keep JobSet from making its own, for ever.

    Raises:
        ConflictError: there is something of such a name.
    """
    service = hosts(name, as_jobset=as_jobset).service
    for _ in range(60):
        try:
            api.post(place.services(), {"metadata": {"name": service}, "spec": {"clusterIP": "None"}}, dry_run=True)
            break
        except ApiError as error:
            if error.status != 409:
                break  # whoever makes it says it
        time.sleep(0.5)  # of an earlier job of that name, which goes
    else:
        raise ConflictError(
            f"The namespace {place.owner!r} has a Service {service!r}, by which the job's pods would find each other.",
            f"Choose another name for the run, or delete that one: kubectl -n {place.owner} delete service {service}",
        )
    if as_jobset and api.find(place.job(child_name(name))) is not None:
        raise ConflictError(
            f"The namespace {place.owner!r} has a Job {child_name(name)!r}, which is the name of the one that JobSet "
            "makes.",
            "Choose another name for the run, or delete that one.",
        )
