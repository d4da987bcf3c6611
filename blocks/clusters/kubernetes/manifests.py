"""From the port's words to Kubernetes objects: a volume's claim, a job, a session's pod. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from blocks.clusters.job import Job, Mount, SecretRef
from blocks.clusters.kubernetes import labels as marks
from blocks.clusters.kubernetes.jobset import wrap
from blocks.clusters.kubernetes.labels import label_value, label_values
from blocks.clusters.kubernetes.node_cache import prefer_nodes, share_weights
from blocks.clusters.kubernetes.pods import container, pod
from blocks.clusters.kubernetes.quantity import write_bytes, write_cpus
from blocks.clusters.kubernetes.rendezvous import Hosts, hosts, meeting, number
from blocks.clusters.kubernetes.settings import KubernetesSettings
from blocks.clusters.names import fit_name

Json = dict[str, Any]

KEEP_ENDED_JOBS_SECONDS = 7 * 24 * 3600
KEEP_CALLS_SECONDS = 120
_SMALL = {"requests": {"cpu": "100m", "memory": "256Mi"}}
WRITABLE_ROOT = "/rw"
"""Where a session has its volume a second time, writable, for programs that may write."""


def claim(name: str, size: int, settings: KubernetesSettings) -> Json:
    """A PersistentVolumeClaim.

    Args:
        size: bytes.
    """
    spec: Json = {
        "accessModes": [settings.access_mode],
        "resources": {"requests": {"storage": write_bytes(size)}},
    }
    if settings.storage_class is not None:
        spec["storageClassName"] = settings.storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": {**marks.OURS, marks.KIND: "volume"}},
        "spec": spec,
    }


def job(
    asked: Job,
    settings: KubernetesSettings,
    single_node: Sequence[str] = (),
    submitted_at: str = "",
    *,
    as_jobset: bool = False,
) -> Json:
    """A batch/v1 Job for one launch: one pod a node, started once.

    Args:
        submitted_at: now, for the order of jobs of one second.
        single_node: those of its volumes that only one node can mount at a time.
        as_jobset: with a JobSet around it.
    """
    queue = asked.queue or settings.queue
    labels = {
        **label_values(asked.labels),
        **marks.OURS,
        marks.KIND: "job",
        marks.NAME: label_value(asked.name),
    }
    template = _job_pod(asked, settings, labels, single_node, hosts(asked.name, as_jobset=as_jobset))
    spec: Json = {**_ONCE, "ttlSecondsAfterFinished": KEEP_ENDED_JOBS_SECONDS, "template": template}
    if asked.nodes > 1:
        spec |= {"completionMode": "Indexed", "completions": asked.nodes, "parallelism": asked.nodes}
    if queue:
        spec["suspend"] = True  # Kueue starts it
    made = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": asked.name,
            "labels": {**labels, **({marks.QUEUE: queue} if queue else {})},
            "annotations": {
                **_asked_for(asked),
                marks.SUBMITTED: submitted_at,
                marks.DEADLINE: str(asked.deadline_seconds or ""),
            },
        },
        "spec": spec,
    }
    return wrap(made) if as_jobset else made


def _asked_for(asked: Job) -> dict[str, str]:
    """Pods have it, too: they may outlive their Job."""
    return {
        marks.REQUEST_HASH: asked.request_hash,
        marks.LABELS: json.dumps(asked.labels),
        marks.MOUNTS: json.dumps([mount.model_dump() for mount in asked.mounts]),
    }


_ONCE = {
    "backoffLimit": 0,
    "completions": 1,
    "parallelism": 1,
    # Says of a job that lost its pod to a drain, a preemption or a dead node that this was it.
    "podFailurePolicy": {
        "rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    },
}


def call_job(
    name: str,
    command: Sequence[str],
    settings: KubernetesSettings,
    *,
    volume: str | None,
    writable: bool,
    env: Mapping[str, str],
    secrets: Mapping[str, SecretRef],
    timeout_seconds: float,
    single_node: bool = False,
) -> Json:
    """A Job for one call that gets a pod of its own; it is gone soon after its end."""
    labels = {**marks.OURS, marks.KIND: "call", marks.NAME: name}
    mounts = [{"name": "volume-0", "mountPath": "/volume", "readOnly": not writable}] if volume else []
    main = container(
        "main", settings.image, command, settings, env=env, secrets=secrets, mounts=mounts, resources=_SMALL
    )
    template = pod(
        settings,
        {"labels": labels},
        [main],
        claims={"volume-0": volume} if volume else {},
        single_node_claims=[volume] if volume and single_node else [],
        extra={"activeDeadlineSeconds": max(1, round(timeout_seconds))},
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {**_ONCE, "ttlSecondsAfterFinished": KEEP_CALLS_SECONDS, "template": template},
    }


def session(
    name: str,
    volume: str,
    settings: KubernetesSettings,
    *,
    internal: bool,
    writable: bool,
    single_node: bool = False,
) -> Json:
    """A pod that has a volume mounted and waits for programs.

    Args:
        internal: has the volume a second time, writable, at `WRITABLE_ROOT`. A person's also ends itself when nothing
            has been started in it a minute after it was opened.
    """
    labels = {
        **marks.OURS,
        marks.KIND: "session",
        marks.NAME: name,
        marks.INTERNAL: str(internal).lower(),
        marks.WRITABLE: str(writable).lower(),
    }
    mounts = [{"name": "volume-0", "mountPath": "/volume", "readOnly": internal or not writable}]
    if internal:
        mounts.append({"name": "volume-0", "mountPath": WRITABLE_ROOT, "readOnly": False})
    idle = settings.session_idle_seconds if internal else settings.shell_idle_seconds
    unused = idle if internal else min(idle, UNUSED_SECONDS)
    command = ("sh", "-c", _IDLE, "idle", str(idle), str(unused))
    main = container("main", settings.image, command, settings, mounts=mounts, resources=_SMALL)
    template = pod(
        settings,
        {
            "name": name,
            "labels": labels,
            "annotations": {marks.CLAIM: volume},
        },
        [main],
        claims={"volume-0": volume},
        single_node_claims=[volume] if single_node else [],
        extra={"terminationGracePeriodSeconds": 1},
    )
    return {"apiVersion": "v1", "kind": "Pod", **template}


UNUSED_SECONDS = 60
USED, RUNNING, SHELLS = "/scratch/.used", "/scratch/.running", "/scratch/.shells"
_IDLE = f"""trap 'exit 0' TERM
opened=$(date +%s)
while :; do
  now=$(date +%s)
  flock -n -x {RUNNING} true || touch {USED}
  last=$(stat --printf '%X\\n%Y\\n' {USED} /dev/pts/[0-9]* 2>/dev/null | sort -n | tail -n 1)
  [ $((now - ${{last:-$opened}})) -lt "$1" ] || exit 0
  [ -e {USED} ] || [ $((now - opened)) -lt "$2" ] || exit 0
  sleep 2 & wait $!
done"""
"""A session's own program. What runs in it holds a lock; a terminal's times are those of its last input and output."""


def in_session(command: Sequence[str], *, shell: bool = False) -> list[str]:
    """A command that keeps its session open: for as long as it runs, or, in a shell, for as long as somebody types.

    The lock goes with the command and all that it starts, however they end.
    """
    lock = SHELLS if shell else RUNNING
    return ["sh", "-c", f'touch {USED}; exec 9>>{lock}; flock -s 9; exec "$@"', "session", *command]


ALONE = ("sh", "-c", f"flock -n -x {SHELLS} flock -n -x {RUNNING} true")
"""Succeeds where nothing runs in a session and nobody has a shell in it."""


def _job_pod(
    asked: Job, settings: KubernetesSettings, labels: dict[str, str], single_node: Sequence[str], found: Hosts
) -> Json:
    claims = {f"volume-{n}": name for n, name in enumerate(dict.fromkeys(m.volume for m in asked.mounts))}
    names = {claim: name for name, claim in claims.items()}
    if asked.nodes > 1:
        asked = asked.model_copy(update={"env": {**asked.env, **meeting(asked, found)}})
    mounts = sorted(asked.mounts, key=lambda mount: mount.mount_path.count("/"))
    main = container(
        "main",
        asked.image or settings.image,
        asked.command,
        settings,
        env=asked.env,
        secrets=asked.secrets,
        mounts=[*(_mount(mount, names) for mount in mounts), *_shared_memory(asked)],
        resources=_resources(asked, settings),
    )
    extra: Json = {}
    if asked.deadline_seconds is not None:  # of the pod, not of the Job: that one counts the wait for room, too
        extra["activeDeadlineSeconds"] = asked.deadline_seconds
    if asked.gpu_kind and asked.gpus:
        kind = settings.gpu_kinds.get(asked.gpu_kind, asked.gpu_kind)
        extra["nodeSelector"] = {settings.gpu_kind_label: kind}
    if _shared_memory(asked):
        extra["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    made = pod(
        settings,
        {"labels": labels, "annotations": _asked_for(asked)},
        [main],
        init=_init(asked, settings, mounts, names),
        claims=claims,
        single_node_claims=single_node,
        scratch_bytes=asked.scratch_bytes,
        extra=extra,
    )
    if asked.node_cache and settings.node_cache:
        made = share_weights(made, settings)
    if asked.preferred_nodes:
        made = prefer_nodes(made, asked.preferred_nodes)
    return number(made, asked, found) if asked.nodes > 1 else made


def _init(asked: Job, settings: KubernetesSettings, mounts: Sequence[Mount], names: Mapping[str, str]) -> list[Json]:
    """The init command, with whole volumes writable.

    It also makes the directories that the main container mounts: a kubelet would make them for root alone.
    """
    whole = {mount.volume: mount.mount_path.rstrip("/") for mount in mounts if not mount.sub_path.strip("/")}
    inside = [
        f"{whole[mount.volume]}/{mount.sub_path.strip('/')}"
        for mount in mounts
        if mount.sub_path.strip("/") and mount.volume in whole
    ]
    if not asked.init_command and not inside:
        return []
    elsewhere = [m for m in mounts if not m.sub_path.strip("/") or m.volume not in whole]
    command = asked.init_command
    if inside:
        make = f'n={len(inside)}; while [ $n -gt 0 ]; do mkdir -p -- "$1" || exit; shift; n=$((n-1)); done; '
        run = 'exec "$@"' if command else ":"
        command = ("sh", "-c", make + run, "init", *inside, *command)
    return [
        container(
            "init",
            settings.image,
            command,
            settings,
            env={**asked.env, **_in_queue(asked, settings)},
            mounts=[_mount(mount, names, writable=True) for mount in elsewhere],
            resources=_init_resources(asked),
        )
    ]


def _in_queue(asked: Job, settings: KubernetesSettings) -> dict[str, str]:
    """So that an init command knows that its job may be taken back, and begin once more."""
    queue = asked.queue or settings.queue
    return {"SLIPWAY_QUEUE": queue} if queue else {}


def _mount(mount: Mount, names: Mapping[str, str], *, writable: bool = False) -> Json:
    made: Json = {
        "name": names[mount.volume],
        "mountPath": mount.mount_path,
        "readOnly": mount.read_only and not writable,
    }
    if sub_path := mount.sub_path.strip("/"):
        made["subPath"] = sub_path
    return made


def _resources(asked: Job, settings: KubernetesSettings) -> Json:
    requests, limits = {"cpu": write_cpus(asked.cpus)}, {}
    if asked.memory_bytes is not None:
        requests["memory"] = limits["memory"] = write_bytes(asked.memory_bytes)
    if asked.gpus:
        requests[settings.gpu_resource] = limits[settings.gpu_resource] = str(asked.gpus)
    if asked.scratch_bytes is not None:
        requests["ephemeral-storage"] = write_bytes(asked.scratch_bytes)
    return {"requests": requests, "limits": limits}


def _init_resources(asked: Job) -> Json:
    """What the main container has anyway, so that the init container asks for no more room."""
    main: Json = {"requests": {"cpu": write_cpus(min(asked.cpus, 1))}}
    if asked.memory_bytes is not None:
        main["requests"]["memory"] = write_bytes(asked.memory_bytes)
        main["limits"] = {"memory": write_bytes(asked.memory_bytes)}
    return main


def _shared_memory(asked: Job) -> list[Json]:
    """Data loaders and NCCL want more than the 64 MiB that a container gets."""
    return [{"name": "shm", "mountPath": "/dev/shm"}] if asked.gpus else []  # noqa: S108


def internal_session(volume: str, settings: KubernetesSettings, *, single_node: bool) -> Json:
    """The one internal session of a volume; another image or other settings make it another one."""
    unnamed = session("", volume, settings, internal=True, writable=True, single_node=single_node)
    mark = hashlib.sha256(json.dumps(unnamed, sort_keys=True).encode()).hexdigest()[:8]
    name = fit_name("slipway-session", volume, mark)
    return session(name, volume, settings, internal=True, writable=True, single_node=single_node)
