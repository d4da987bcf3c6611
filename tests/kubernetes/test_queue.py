"""A run under Kueue's own controller: preempted, it waits in its place, and goes on from its newest complete step."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from blocks.clusters.job import Job, JobState, Mount
from blocks.clusters.kubernetes.cluster import KubernetesCluster
from blocks.hub_access import HubAccess
from blocks.trainer_settings import Resources
from tasks.runs.follow import Progress, follow
from tasks.runs.launch import Launch, launch, read_run
from tasks.runs.records import RunRecord
from tasks.runs.state import RunState, run_state
from tests.cluster.access import TestCluster
from tests.cluster.queues import Queues, queues_of
from tests.kubernetes.conftest import command_line, on_this_machine
from tests.kubernetes.test_main_job import until_checkpoint
from tests.kubernetes.waiting import wait_until
from tests.tasks.conftest import Desk

pytestmark = [pytest.mark.cluster, pytest.mark.alone, pytest.mark.usefixtures("kueue"), pytest.mark.timeout(600)]
ONE_GPU = Resources(cpus=0.1, gpus=1)
HALF = "import os; os.mkdir('{0}'); open('{0}/model.safetensors', 'w').write('torn')"
TORN = "runs/one/checkpoints/step_11"
URGENT = Job(name="urgent", request_hash="x", command=("sleep", "600"), cpus=0.1, gpus=1, queue="team")


@pytest.fixture
def queues(cluster: KubernetesCluster) -> Iterator[Queues]:
    with queues_of(cluster) as made:
        yield made


@pytest.fixture
def desk(kubernetes: TestCluster, owner: str, queues: Queues, hub_url: str, demo_assets: Path) -> Desk:
    """Where staging and runs alike wait in the queue."""
    patch = on_this_machine(demo_assets)
    cluster = kubernetes.connect(owner, pod_patch=patch, poll_seconds=0.5, queue="team")
    return Desk(cluster, HubAccess(endpoint=hub_url), demo_assets, volume="research")


@pytest.fixture
def urgent(kubernetes: TestCluster, owner: str, queues: Queues) -> KubernetesCluster:
    """Whose jobs take the quota from others."""
    return kubernetes.connect(owner, priority_class=queues.priority(1000))


def begun(desk: Desk) -> Launch:
    """A run that has a complete checkpoint and eight steps to go."""
    launched = desk.launch(desk.request("one", resources=ONE_GPU, pace__step_seconds=3.0))
    until_checkpoint(desk, launched.plan)
    return launched


def preempt(desk: Desk, urgent: KubernetesCluster, launched: Launch) -> None:
    """Take the run's turn, leave it a half-written step, and see that it waits for another turn."""
    urgent.jobs.submit(URGENT)
    wait_until(lambda: "Preempted to accommodate a workload" in state_of(desk).reason)
    assert (state_of(desk).state, read(desk).attempts[-1].attempt) == ("queued", 1)
    wait_until(lambda: urgent.jobs.status(["urgent"])["urgent"].state is JobState.RUNNING)
    assert jobs_with_pods(urgent) == ["urgent"]
    mounts = (Mount(volume=desk.volume, read_only=False),)
    half = ("python", "-c", HALF.format(f"/volume/{TORN}"))
    desk.cluster.jobs.submit(Job(name="half", request_hash="x", command=half, cpus=0.1, mounts=mounts))
    wait_until(lambda: desk.cluster.jobs.status(["half"])["half"].state is JobState.COMPLETED)


def read(desk: Desk) -> RunRecord:
    return read_run(desk.cluster, desk.volume, "one")


def state_of(desk: Desk) -> RunState:
    return run_state(desk.cluster, [read(desk)])["one"]


def jobs_with_pods(cluster: KubernetesCluster) -> list[str]:
    """Of those pods that have not ended."""
    found = cluster.api.items(
        f"/api/v1/namespaces/{cluster.owner}/pods", {"labelSelector": "slipway.dev/kind=job,slipway.dev/name"}
    )
    return [
        pod["metadata"]["labels"]["slipway.dev/name"]
        for pod in found
        if pod["status"]["phase"] not in ("Failed", "Succeeded")
    ]


@pytest.mark.parametrize("followed", [True, False], ids=["followed", "by-nobody"])
def test_a_run_that_is_preempted_goes_on_in_its_place_from_its_newest_complete_step(
    desk: Desk, urgent: KubernetesCluster, followed: bool
) -> None:
    launched, ends = begun(desk), list[Progress]()
    following = threading.Thread(target=lambda: ends.extend(follow(desk.cluster, [launched], lambda progress: None)))
    if followed:
        following.start()
    preempt(desk, urgent, launched)
    urgent.jobs.stop("urgent", grace_seconds=0)
    wait_until(lambda: len(read(desk).attempts) == 2)  # the pod itself saw to that
    if not followed:
        following.start()
    following.join(400)
    (progress,) = ends

    assert progress.end and progress.end.state == "completed", progress.end
    assert [c["step"] for c in progress.checkpoints if c["verdict"] == "complete"] == [4, 8, 12]
    first, second = read(desk).attempts
    assert first.job == second.job == progress.launch.job
    assert first.end and (first.end.cause, "took it back" in first.end.reason) == ("evicted", True)
    assert (second.resume.kind, second.resume.step >= 4, second.end) == ("own", True, progress.end)
    assert TORN.removeprefix("runs/one/") in [moved["path"] for moved in second.set_aside]
    assert [status.name for status in desk.cluster.jobs.find({"slipway.dev/run": "one"})] == [launched.job]


def test_a_run_that_is_stopped_after_it_was_preempted_stays_stopped_until_it_is_asked_for_again(
    desk: Desk, urgent: KubernetesCluster, kubernetes: TestCluster, tmp_path: Path
) -> None:
    slipway = command_line(tmp_path, kubernetes, urgent.owner, 'queue = "team"\n')
    launched = begun(desk)
    preempt(desk, urgent, launched)
    ((state, reason),) = [(row["state"], row["reason"]) for row in slipway("runs", "list", "-o", "json").json]
    assert state == "queued" and reason.startswith("waits in the queue team: Preempted to accommodate a workload")
    assert "Preempted to accommodate" in slipway("runs", "show", "one").out
    assert slipway("runs", "stop", "one").code == 0
    assert slipway("runs", "list", "-o", "json").json[0]["state"] == "stopped"
    urgent.jobs.stop("urgent", grace_seconds=0)
    again = launch(desk.cluster, launched.plan)
    assert (again.attempt.attempt, again.attempt.resume.kind) == (2, "own")
    (progress,) = follow(desk.cluster, [again], lambda progress: None)
    assert progress.end and progress.end.state == "completed", progress.end
    assert len(read(desk).attempts) == 2
    assert sorted(status.state for status in desk.cluster.jobs.find({"slipway.dev/run": "one"})) == [
        "completed",
        "stopped",
    ]
