"""The main job as pods while its Prefect worker is killed again and again, with or without the flows it started."""

import random
import time

import psutil
import pytest

from blocks.clusters.job import JobState
from blocks.clusters.kubernetes.cluster import KubernetesCluster
from deployments.processes import noted
from tasks.runs.launch import read_run
from tests.conftest import Running

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def kill_worker(running: Running, *, flows: bool) -> None:
    note = noted(running.stack.state, "worker")
    assert note is not None
    worker = psutil.Process(note["pid"])
    for process in [*(worker.children(recursive=True) if flows else []), worker]:
        process.kill()
    worker.wait(30)
    running.stack.up(lambda text: None)


@pytest.mark.timeout(1800)
def test_a_worker_killed_at_ten_random_points_of_the_pipeline_costs_no_run_and_no_second_job(
    running: Running, block: object, cluster: KubernetesCluster
) -> None:
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    ask = {"cluster": block, "volume": "research", "name": "alpha", "set": {"pace.step_seconds": 1.0}}

    asked = running.run("pipeline/local", **ask)
    for _ in range(10):
        time.sleep(chance.uniform(5, 20))
        kill_worker(running, flows=chance.random() < 0.7)
        asked = running.run("pipeline/local", **ask)
    running.completed(asked, seconds=900)

    for run in ("alpha", "alpha-fork"):
        record = read_run(cluster, "research", run)
        assert record.last and record.last.attempt == 1 and record.last.end, seed
        assert record.last.end.state == "completed", (seed, record.last.end)
        (job,) = cluster.jobs.find({"slipway.dev/run": run})
        assert job.state == JobState.COMPLETED, seed
