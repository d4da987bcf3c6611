"""The deployments for a Kubernetes work pool are those of prefect.yaml, elsewhere."""

import json
import re
import subprocess
import sys
from typing import Any

import yaml

from deployments.kubernetes.deployments import CODE
from tests.deployments.test_prefect_yaml import DEPLOYMENTS, PROJECT

IMAGE = "registry.example/slipway-flows:1"


def made() -> dict[str, Any]:
    """As an operator makes them."""
    argv = [sys.executable, "-m", "deployments.kubernetes.deployments", "--image", IMAGE, "--cluster", "big"]
    said = subprocess.run(argv, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = yaml.safe_load(said)
    return found


def test_each_deployment_is_there_with_the_same_parameters() -> None:
    found = made()["deployments"]
    assert [d["entrypoint"] for d in found] == [d["entrypoint"] for d in DEPLOYMENTS]
    assert {d["name"] for d in found} == {"kubernetes"}
    for ours, theirs in zip(DEPLOYMENTS, found, strict=True):
        assert set(ours["parameters"]) == set(theirs["parameters"])
        assert theirs["parameters"]["cluster"]["$ref"]["block_document_slug"] == "kubernetes-cluster/big"
        assert ours.get("schedules") == theirs.get("schedules")


def test_each_runs_as_a_pod_of_the_image_from_where_its_code_lies() -> None:
    found = made()
    for deployment in found["deployments"]:
        assert deployment["work_pool"]["name"] == "kubernetes"
        assert deployment["work_pool"]["job_variables"]["image"] == IMAGE
    (step,) = found["pull"]
    assert list(step.values()) == [{"directory": CODE}]
    dockerfile = (PROJECT / "deployments" / "kubernetes" / "Dockerfile").read_text()
    assert dockerfile.count(f"WORKDIR {CODE}") == 2


def test_flow_runs_pods_are_as_restricted_as_their_namespace() -> None:
    template = json.loads((PROJECT / "deployments" / "kubernetes" / "worker" / "flow-run.json").read_text())
    pod = template["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]
    (main,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"]
    assert main["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    named = set(re.findall(r"{{ (\w+) }}", json.dumps(template["job_configuration"])))
    assert named == set(template["variables"]["properties"])
    for deployment in made()["deployments"]:
        assert set(deployment["work_pool"]["job_variables"]) <= named


def test_no_folder_of_a_laptop_is_left_in_them() -> None:
    assert ".slipway/" not in str(made())
