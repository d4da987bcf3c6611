"""How a cluster is reached, without one."""

import json
import pickle
import time
from pathlib import Path

import pytest

from blocks.clusters.errors import SlipwayError
from blocks.clusters.kubernetes.api import UnreachableError
from blocks.clusters.kubernetes.cluster import KubernetesCluster
from blocks.clusters.kubernetes.settings import KubernetesSettings


def connected(folder: Path) -> KubernetesCluster:
    """A cluster at a port where nothing listens."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {"token": "tell-nobody"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = folder / "config"
    path.write_text(json.dumps(config))
    return KubernetesCluster(KubernetesSettings(image="i", kubeconfig=str(path)), name="team", owner="team-a")


def test_a_cluster_can_be_handed_to_a_task_and_hands_on_no_credentials(tmp_path: Path) -> None:
    packed = pickle.dumps(connected(tmp_path))
    assert b"tell-nobody" not in packed
    again = pickle.loads(packed)
    assert (again.name, again.owner, again.api.host) == ("team", "team-a", "http://127.0.0.1:9")
    assert again.api.headers() == {"authorization": "Bearer tell-nobody"}


def test_a_server_that_does_not_answer_is_named_after_some_patience(tmp_path: Path) -> None:
    cluster = connected(tmp_path)
    cluster.api.patience_seconds = 0.5
    started = time.monotonic()
    with pytest.raises(UnreachableError, match=r"'team' at http://127\.0\.0\.1:9"):
        cluster.volumes.list()
    assert time.monotonic() - started < 30


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SlipwayError, match="nowhere"):
        KubernetesCluster(KubernetesSettings(image="i", kubeconfig=str(tmp_path / "nowhere")), owner="team-a")


def test_a_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    connected(tmp_path)
    settings = KubernetesSettings(image="i", kubeconfig=str(tmp_path / "config"), context="prod")
    with pytest.raises(SlipwayError, match="prod"):
        KubernetesCluster(settings, owner="team-a")
