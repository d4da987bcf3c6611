"""How the pods of a job of several nodes find each other: a headless Service, and what torchrun reads. Pure."""

from dataclasses import dataclass
from typing import Any

from blocks.clusters.job import Job
from blocks.clusters.kubernetes import labels as marks
from blocks.clusters.kubernetes.gang import INDEX
from blocks.clusters.kubernetes.jobset import child_name, jobset_name
from blocks.clusters.kubernetes.labels import label_value

Json = dict[str, Any]

PORT = 29500


@dataclass(frozen=True)
class Hosts:
    """The names of a job's pods: `<job>-<number>.<service>`.

    Args:
        job: the Job whose pods they are.
        service: the headless Service.
    """

    job: str
    service: str


def hosts(name: str, *, as_jobset: bool) -> Hosts:
    """Of the job of that name, where JobSet makes the Job and the Service or where we do."""
    return Hosts(child_name(name), jobset_name(name)) if as_jobset else Hosts(name, name)


def service(job: Json) -> Json:
    """The headless Service of a job of several nodes: a name for each of its pods, also before they are ready.

    Args:
        job: as the API server made it; the Service goes with it.
    """
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "labels": {**marks.OURS, marks.KIND: "rendezvous", marks.NAME: label_value(name)},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"batch.kubernetes.io/job-name": name},
            "ports": [{"name": "rendezvous", "port": PORT}],
        },
    }


def meeting(asked: Job, found: Hosts) -> Json:
    """What torchrun, and what is started by it, reads to find the other nodes."""
    first = f"{found.job}-0.{found.service}"
    return {
        "MASTER_ADDR": first,
        "MASTER_PORT": str(PORT),
        "PET_NNODES": str(asked.nodes),
        "PET_NPROC_PER_NODE": str(max(1, asked.gpus)),
        "PET_MASTER_ADDR": first,
        "PET_MASTER_PORT": str(PORT),
    }


def number(template: Json, asked: Job, found: Hosts) -> Json:
    """The pod of one of several nodes: with its number, a name that the others know, and on a node of its own."""
    rank = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}}
    spec = template["spec"]
    for ours in (*spec["containers"], *spec.get("initContainers", ())):
        if ours["name"] in ("main", "init"):
            ours["env"] += [{"name": name, **rank} for name in ("NODE_RANK", "PET_NODE_RANK")]
    spec["subdomain"] = found.service
    apart = {
        "labelSelector": {"matchLabels": {marks.NAME: label_value(asked.name)}},
        "topologyKey": "kubernetes.io/hostname",
    }
    spec.setdefault("affinity", {}).setdefault("podAntiAffinity", {}).setdefault(
        "preferredDuringSchedulingIgnoredDuringExecution", [{"weight": 100, "podAffinityTerm": apart}]
    )
    return template
