"""What must not change a run's outcome: flows that are killed, and an API server that goes away."""

import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from blocks.clusters.job import JobState
from blocks.clusters.kubernetes.cluster import KubernetesCluster
from tasks.runs.launch import read_run
from tasks.runs.records import End
from tests.cluster.access import NAMESPACES, TestCluster, api_server_away
from tests.cluster.accounts import make_account, rules, write_kubeconfig
from tests.conftest import PROJECT
from tests.kubernetes.conftest import on_this_machine
from tests.tasks.conftest import Desk

pytestmark = pytest.mark.cluster


@pytest.mark.alone
def test_an_api_server_that_is_away_for_half_a_minute_does_not_change_a_runs_outcome(
    desk: Desk, kubernetes: TestCluster
) -> None:
    if not kubernetes.ours:
        pytest.skip("the API server of a cluster that was named is not ours to stop")
    request = desk.request("one", pace__step_seconds=1.0)
    launched = desk.launch(request)
    ends: list[End | None] = []
    following = threading.Thread(target=lambda: ends.append(desk.train(request).end))
    following.start()
    with api_server_away(kubernetes):
        time.sleep(30)
    following.join(600)
    assert [end and end.state for end in ends] == ["completed"]
    (job,) = desk.cluster.jobs.find({"slipway.dev/run": "one"})
    assert (job.name, job.state) == (launched.job, JobState.COMPLETED)


def test_a_run_is_followed_on_once_credentials_that_ended_are_good_again(
    desk: Desk, kubernetes: TestCluster, owner: str, demo_assets: Path, tmp_path: Path
) -> None:
    assert isinstance(desk.cluster, KubernetesCluster)
    admin, said = desk.cluster.api, list[str]()
    accounts, kubeconfig = f"{NAMESPACES}/{owner}/serviceaccounts", tmp_path / "kubeconfig"
    make_account(admin, owner, "follower", rules("owner/roles.yaml", "slipway"))
    write_kubeconfig(kubeconfig, admin, owner, "follower")
    settings = kubernetes.settings(kubeconfig=str(kubeconfig), pod_patch=on_this_machine(demo_assets))
    time.sleep(2)  # rights are seen a moment later
    followed = Desk(KubernetesCluster(settings, owner=owner, say=said.append), desk.hub, desk.assets, desk.volume)
    request = followed.request("one", pace__step_seconds=1.0)
    followed.launch(request)
    ends: list[End | None] = []
    following = threading.Thread(target=lambda: ends.append(followed.train(request).end))
    following.start()
    admin.delete(f"{accounts}/follower")  # its tokens end with it, as soon as the API server has forgotten them
    until = time.monotonic() + 300
    while not said:
        assert time.monotonic() < until and following.is_alive()
        time.sleep(0.2)
    admin.post(accounts, {"metadata": {"name": "follower"}})
    write_kubeconfig(kubeconfig, admin, owner, "follower")
    following.join(600)
    assert [end and end.state for end in ends] == ["completed"]
    assert len(said) == 1 and "Log in again" in said[0] and "token" not in said[0].lower()
    assert len(desk.cluster.jobs.find({"slipway.dev/run": "one"})) == 1


def test_a_flow_killed_at_ten_random_points_leaves_one_run_with_one_job(
    desk: Desk, kubernetes: TestCluster, prefect_server: dict[str, str], hub_url: str, demo_assets: Path
) -> None:
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    fields = kubernetes.settings(pod_patch=on_this_machine(demo_assets)).model_dump(mode="json")
    block = {**fields, "owner": desk.cluster.owner}
    parameters = {"name": "one", "volume": "research", "volume_size": "1Gi", "set": {"pace.step_seconds": 1.0}}
    argv = [sys.executable, "-m", "tests.kubernetes.asking", json.dumps(block), hub_url, str(demo_assets)]

    def ask() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*argv, json.dumps(parameters)],
            cwd=PROJECT,
            env={**os.environ, **prefect_server},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    for _ in range(10):
        flow = ask()
        time.sleep(chance.uniform(4, 12))
        flow.kill()
        flow.wait()
    last = ask()
    said = last.communicate(timeout=600)[0]
    assert last.returncode == 0, (seed, said[-3000:])
    record = read_run(desk.cluster, "research", "one")
    assert record.last and record.last.attempt == 1 and record.last.end, seed
    assert record.last.end.state == "completed", (seed, record.last.end)
    assert len(desk.cluster.jobs.find({"slipway.dev/run": "one"})) == 1, seed
    staging = [job for job in desk.cluster.jobs.find({}) if "slipway.dev/stage" in job.labels]
    staging.sort(key=lambda job: (job.labels["slipway.dev/stage"], job.submitted_at))
    assert all(job.state == JobState.COMPLETED for job in staging), (seed, staging)
    assert len({job.labels["slipway.dev/stage"] for job in staging}) == 2, (seed, staging)
    for earlier, later in itertools.pairwise(staging):  # one that was planned while another ended finds all of it there
        same = earlier.labels["slipway.dev/stage"] == later.labels["slipway.dev/stage"]
        assert not same or (earlier.ended_at and earlier.ended_at <= later.submitted_at), (seed, staging)
