"""The main job on a real Kubernetes: pods reach the tests' Hub on this machine by its network."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from blocks.clusters.kubernetes.cluster import KubernetesCluster
from blocks.hub_access import HubAccess
from tests.cluster.access import TestCluster, owner_of_its_own
from tests.conftest import Running
from tests.flows.cli.conftest import Slipway
from tests.tasks.conftest import Desk


def on_this_machine(assets: Path) -> dict[str, Any]:
    """A pod patch: the machine's network, and a folder of it."""
    mount = {"name": "assets", "mountPath": str(assets), "readOnly": True}
    return {
        "spec": {
            "hostNetwork": True,
            "volumes": [{"name": "assets", "hostPath": {"path": str(assets)}}],
            "containers": [{"name": "main", "volumeMounts": [mount]}],
        }
    }


def command_line(folder: Path, kubernetes: TestCluster, owner: str, more: str = "") -> Slipway:
    """The command line with a slipway.toml that names the test cluster.

    Args:
        more: lines of that cluster's settings.
    """
    (folder / "slipway.toml").write_text(
        'default_cluster = "team"\n\n[clusters.team]\nkind = "kubernetes"\n'
        f'owner = "{owner}"\nimage = "{kubernetes.image}"\nkubeconfig = "{kubernetes.kubeconfig}"\n'
        f'storage_class = "{kubernetes.storage_class}"\naccess_mode = "ReadWriteOnce"\npoll_seconds = 0.5\n{more}'
    )
    return Slipway(folder)


@pytest.fixture
def owner(kubernetes: TestCluster) -> Iterator[str]:
    with owner_of_its_own(kubernetes) as name:
        yield name


@pytest.fixture
def desk(kubernetes: TestCluster, owner: str, hub_url: str, demo_assets: Path) -> Desk:
    cluster = kubernetes.connect(owner, pod_patch=on_this_machine(demo_assets), poll_seconds=0.5)
    return Desk(cluster, HubAccess(endpoint=hub_url), demo_assets, volume="research")


@pytest.fixture
def cluster(kubernetes: TestCluster, owner: str, demo_assets: Path) -> KubernetesCluster:
    return kubernetes.connect(owner, pod_patch=on_this_machine(demo_assets))


@pytest.fixture
def block(kubernetes: TestCluster, owner: str, demo_assets: Path, running: Running) -> Iterator[object]:
    """A reference to the cluster's block, saved as registration saves it."""
    from blocks.kubernetes_cluster import KubernetesCluster as Block

    settings = kubernetes.settings(pod_patch=on_this_machine(demo_assets)).model_dump()
    with temporary_settings({PREFECT_API_URL: running.url}):
        document = Block(owner=owner, **settings).save(owner)
    yield {"$ref": {"block_document_id": str(document)}}
