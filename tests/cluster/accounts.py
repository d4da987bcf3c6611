"""Service accounts with given rights, and the roles that are shipped: for tests of who may do what."""

import base64
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from blocks.clusters.kubernetes.api import Api
from blocks.clusters.kubernetes.cluster import KubernetesCluster
from tests.cluster.access import NAMESPACES, TestCluster

SHIPPED = Path(__file__).resolve().parents[2] / "deployments" / "kubernetes"
Right = tuple[str, str, str]
"""API group, resource, verb."""
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


def make_account(api: Api, owner: str, name: str, rules: list[dict[str, Any]]) -> None:
    """A service account in a namespace with a role of these rules.

    Args:
        api: an administrator's.
    """
    api.post(f"{NAMESPACES}/{owner}/serviceaccounts", {"metadata": {"name": name}})
    give(api, f"{_RBAC}/namespaces/{owner}", "Role", owner, name, name, rules)


def give(api: Api, path: str, kind: str, owner: str, account: str, role: str, rules: list[dict[str, Any]]) -> None:
    """A role of these rules, bound to an account.

    Args:
        path: where roles and bindings of that kind are made.
        kind: "Role" or "ClusterRole".
    """
    api.post(f"{path}/{kind.lower()}s", {"metadata": {"name": role}, "rules": rules})
    api.post(
        f"{path}/{kind.lower()}bindings",
        {
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": owner}],
        },
    )


def connect_as(cluster: TestCluster, api: Api, owner: str, name: str, **changes: Any) -> KubernetesCluster:
    """The cluster as an account sees it, with some settings changed."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        pass
    write_kubeconfig(Path(file.name), api, owner, name)
    time.sleep(2)  # rights are seen a moment later
    return cluster.connect(owner, kubeconfig=file.name, **changes)


def write_kubeconfig(path: Path, api: Api, owner: str, name: str) -> None:
    """One of an account, with a new token."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.post(f"{NAMESPACES}/{owner}/serviceaccounts/{name}/token", asked)["status"]["token"]
    authority = base64.b64encode(Path(str(api.configuration.ssl_ca_cert)).read_bytes()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": api.host, "certificate-authority-data": authority}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": name}}],
        "current-context": "c",
    }
    path.write_text(json.dumps(config))


def rules(file: str, name: str) -> list[dict[str, Any]]:
    """Of a role that is shipped."""
    for found in yaml.safe_load_all((SHIPPED / file).read_text()):
        if found["metadata"]["name"] == name and "rules" in found:
            return list(found["rules"])
    raise LookupError(name)


def rights(*roles: list[dict[str, Any]]) -> set[Right]:
    return {
        (group, resource, verb)
        for role in roles
        for rule in role
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(kubernetes: TestCluster, account: str) -> set[Right]:
    """The rights that an account took, as the API server noted them."""
    log = Path(kubernetes.kubeconfig).parent.parent / "logs" / "audit.log"
    found = set()
    for line in log.read_text().splitlines():
        event = json.loads(line)
        what = event.get("objectRef") or {}
        if not what.get("resource"):  # what the server has at all is anybody's to ask
            continue
        if event["user"].get("username") == account and event["responseStatus"]["code"] < 400:
            resource = "/".join(filter(None, (what["resource"], what.get("subresource"))))
            found.add((what.get("apiGroup", ""), resource, event["verb"]))
    return found
