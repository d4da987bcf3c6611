"""Plays Kueue on the test cluster: its kind of Workload, without a controller."""

import contextlib
from typing import Any

import pytest

from blocks.clusters.kubernetes.api import Api, ApiError
from blocks.clusters.kubernetes.place import KUEUE, Place
from tests.cluster.access import TestCluster

VERSION = "v1beta1"
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_WORKLOADS = {
    "metadata": {"name": "workloads.kueue.x-k8s.io"},
    "spec": {
        "group": "kueue.x-k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "workloads", "singular": "workload", "kind": "Workload", "listKind": "WorkloadList"},
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": _ANYTHING, "status": _ANYTHING}}
                },
            }
        ],
    },
}


def install(cluster: TestCluster, wait_until: Any) -> None:
    """Have the cluster serve Workloads from now on: with none of them, nothing is another."""
    if not cluster.ours:
        pytest.skip("that cluster is not ours to put kinds on")
    api = cluster.connect("default").api
    with contextlib.suppress(ApiError):  # a test before this one did
        api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _WORKLOADS)
    wait_until(lambda: api.find(f"{KUEUE}/{VERSION}") is not None)
    wait_until(lambda: api.find(Place("default").kueue_workloads(VERSION)) is not None)


def queue(api: Api, owner: str, job_uid: str, message: str) -> None:
    """The Workload of a job that Kueue has not admitted, and why."""
    labels = {"kueue.x-k8s.io/job-uid": job_uid}
    pending = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    api.post(
        Place(owner).kueue_workloads(VERSION),
        {
            "apiVersion": f"kueue.x-k8s.io/{VERSION}",
            "kind": "Workload",
            "metadata": {"name": f"job-{job_uid}", "labels": labels},
            "spec": {"queueName": "team"},
            "status": {"conditions": [pending]},
        },
    )
