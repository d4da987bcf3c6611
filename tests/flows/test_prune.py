"""The deployment `prune/local`, as a schedule runs it."""

from blocks.clusters.volume import VolumeStatus
from tasks.pod.layout import Layout
from tests.conftest import Running
from tests.tasks.pod.retained import claim, step


def test_the_deployment_shows_what_goes_and_leaves_what_changed_a_moment_ago(running: Running) -> None:
    running.cluster.volumes.create("pruned", 2**30)
    assert running.cluster.volumes.get("pruned").status == VolumeStatus.READY
    (root,) = running.stack.state.glob("local/volumes/*/pruned")
    layout = Layout(root)
    claim(layout, "r", 10, 20)
    left = layout.trash / "prune.killed.0"
    left.mkdir(parents=True)

    flow_run = running.run("prune/local", volume="pruned", keep_last=1)
    running.completed(flow_run)
    running.logged(flow_run, "0 checkpoints would go")
    assert step(layout, "r", 10).is_dir() and not left.exists()
    artifacts = running.api("POST", "/artifacts/latest/filter", {"artifacts": {"key": {"any_": ["pruned-retention"]}}})
    assert isinstance(artifacts, list) and "volume `pruned`" in artifacts[0]["data"]

    schedules = running.api("GET", "/deployments/name/prune/local")
    assert isinstance(schedules, dict)
    (weekly,) = schedules["schedules"]
    assert (weekly["slug"], weekly["active"], weekly["schedule"]["timezone"]) == ("weekly", False, "Europe/Berlin")
