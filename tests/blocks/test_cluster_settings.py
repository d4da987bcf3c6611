"""slipway.toml knows clusters of both kinds, and says what is wrong with one."""

from pathlib import Path

import pytest

from blocks.cluster import cluster_block, read_cluster
from blocks.clusters.errors import UsageError
from blocks.kubernetes_cluster import KubernetesCluster
from blocks.local_cluster import LocalCluster
from blocks.settings import KubernetesSection, Settings, load_settings

TEAM = """
[clusters.team]
kind = "kubernetes"
owner = "team-a"
image = "registry.example/slipway:1"
kubeconfig = "kube/config"
access_mode = "ReadWriteOnce"
tolerations = [{ key = "gpu", operator = "Exists" }]
pod_patch = { spec = { hostNetwork = true } }
[clusters.here]
root = "local"
"""


def settings(folder: Path, text: str) -> Settings:
    (folder / "slipway.toml").write_text(text)
    return load_settings(folder / "slipway.toml")


def test_both_kinds_of_cluster_become_blocks(tmp_path: Path) -> None:
    found = settings(tmp_path, TEAM)
    team, here = cluster_block(found, "team"), cluster_block(found, "here", owner="you")
    assert isinstance(team, KubernetesCluster) and isinstance(here, LocalCluster)
    assert (team.owner, team.name, here.owner) == ("team-a", "team", "you")
    assert team.kubeconfig == str(tmp_path / "kube/config")
    assert team.pod_patch == {"spec": {"hostNetwork": True}}
    assert team.tolerations == [{"key": "gpu", "operator": "Exists"}]


def test_the_block_says_all_that_the_settings_say() -> None:
    assert set(KubernetesCluster.model_fields) >= set(KubernetesSection.model_fields) - {"kind"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '[clusters.team]\nkind = "kubernetes"\nowner = "a"\nimage = "i"\nimgae = "x"',
            r"clusters\.team\.imgae.*image",
        ),
        ('[clusters.team]\nkind = "kubernetes"\nowner = "a"', r"clusters\.team\.image: is missing"),
        ('[clusters.team]\nkind = "nomad"', '"local" or "kubernetes"'),
        ('[clusters.team]\nroot = "x"\ncpu = 3', r"clusters\.team\.cpu .*cpus"),
    ],
)
def test_what_is_wrong_with_a_cluster_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        settings(tmp_path, text)


def test_a_flow_runs_parameter_is_either_kind_of_block() -> None:
    fields = {"owner": "team-a", "image": "registry.example/slipway:1"}
    assert isinstance(read_cluster(fields), KubernetesCluster)
    assert isinstance(read_cluster({"root": "x"}), LocalCluster)
    assert isinstance(read_cluster(LocalCluster(root="x")), LocalCluster)
