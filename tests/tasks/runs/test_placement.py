"""Where runs read their weights, on the real local cluster with the real trainer."""

import os
import platform
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from blocks.clusters.local.cluster import LocalCluster
from blocks.clusters.local.place import Place
from blocks.hub_access import HubAccess
from tasks.plans.plan import Mark
from tasks.pod.node_cache import NodeCache
from tasks.reports.markdown import training_page
from tasks.reports.story import tell
from tasks.runs.job import job_of
from tasks.runs.launch import read_run
from tasks.runs.request import RunRequest, WeightsRequest
from tests.tasks.conftest import Desk

MANY = 2**30


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    return LocalCluster(
        tmp_path / "cluster", poll_seconds=0.1, cpus=4, node_cache=tmp_path / "node", node_cache_bytes=MANY
    )


@pytest.fixture
def bare(tmp_path: Path, hub_url: str, demo_assets: Path) -> Desk:
    """At a cluster whose nodes have no cache."""
    return Desk(LocalCluster(tmp_path / "cluster", poll_seconds=0.1), HubAccess(endpoint=hub_url), demo_assets)


def _reading(request: RunRequest, **weights: Any) -> RunRequest:
    return request.model_copy(update={"weights": WeightsRequest(**weights)})


def test_runs_read_copies_and_say_what_they_took(desk: Desk, cluster: LocalCluster, tmp_path: Path) -> None:
    progress_of = {}
    for run, placement in (("scratch", "hydrate"), ("first", "node"), ("second", "node"), ("plain", "volume")):
        progress = progress_of[run] = desk.train(_reading(desk.request(run, max_steps=4), placement=placement))
        assert progress.end and progress.end.state == "completed", progress.end

    reports = {run: read_run(cluster, "v", run).attempts[0].weights for run in ("scratch", "first", "second", "plain")}
    assert {run: report and (report.read_from, report.cached) for run, report in reports.items()} == {
        "scratch": ("hydrate", False),
        "first": ("node", False),
        "second": ("node", True),
        "plain": ("volume", False),
    }
    scratch = reports["scratch"]
    assert scratch and scratch.bytes > 0 and scratch.checked == "xxh3"
    (entry,) = NodeCache(tmp_path / "node", MANY).entries()
    assert entry["in_use"] == []
    records = {run: read_run(cluster, "v", run).attempts[0] for run in ("first", "second")}
    assert records["first"].preferred_nodes == ()
    assert records["second"].preferred_nodes == (platform.node(),)
    assert job_of(read_run(cluster, "v", "second").plan, records["second"]).preferred_nodes
    story = tell(cluster, "v", "second")
    assert story.first_step_seconds and story.first_step_seconds > 0
    assert set(story.beginning()) == {"download", "start", "weights read", "node", "first step"}
    assert story.beginning()["node"] == f"{platform.node()}, one of 1 preferred for having the weights"
    page = training_page(progress_of["second"], [])
    for name, text in story.beginning().items():
        assert f"| {name} | {text} |" in page
    downloads = [read_run(cluster, "v", run).plan.resolved.weights.download for run in ("scratch", "plain")]
    assert downloads[0] and downloads[0].bytes > 0 and downloads[1] is None


def test_a_live_run_keeps_its_copy_on_the_node_also_without_its_supervisor(
    desk: Desk, cluster: LocalCluster, tmp_path: Path
) -> None:
    launched = desk.launch(_reading(desk.request("long", max_steps=4000, pace__step_seconds=0.1), placement="node"))
    cache = NodeCache(tmp_path / "node", MANY)
    try:
        # Its program, not only its init command before it: what is killed between the two begins none.
        _wait_for(lambda: any(cluster._root.glob("volumes/*/v/runs/long/metrics.jsonl")))
        assert [entry["in_use"] for entry in cache.entries()] == [["long.1"]]
        supervisor = Place(cluster._root, "me", launched.job).supervisor()
        assert supervisor
        os.kill(supervisor.pid, signal.SIGKILL)
        _wait_for(lambda: not supervisor.lives)
        assert [entry["in_use"] for entry in cache.entries()] == [["long.1"]], "its program reads on"
    finally:
        cluster.jobs.stop(launched.job, grace_seconds=1)

    _wait_for(lambda: [entry["in_use"] for entry in cache.entries()] == [[]])


def _wait_for(what: Any) -> None:
    deadline = time.monotonic() + 200
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_placement_is_part_of_what_was_asked_for(desk: Desk) -> None:
    request = desk.request("r")

    assert _reading(request, placement="volume").request_hash() == request.request_hash()
    assert _reading(request, placement="node").request_hash() != request.request_hash()


def test_a_plan_says_where_weights_will_be_read(desk: Desk) -> None:
    details = [i.detail for i in desk.plan(_reading(desk.request("r"), placement="node")).items]

    assert any("are read from the node's cache" in detail for detail in details)


def test_without_a_node_cache_it_is_said_at_plan_time(bare: Desk) -> None:
    (blocked,) = bare.plan(_reading(bare.request("r"), placement="node")).blocked
    assert "has no node cache" in blocked.detail

    plan = bare.plan(_reading(bare.request("r"), placement="node", fallback=True))
    assert not plan.blocked
    assert any(item.mark is Mark.WARNING and "read in place" in item.detail for item in plan.items)


def test_a_fallback_that_was_asked_for_is_taken_and_reported(bare: Desk) -> None:
    progress = bare.train(_reading(bare.request("r", max_steps=4), placement="node", fallback=True))

    report = read_run(bare.cluster, "v", "r").attempts[0].weights
    assert progress.end and progress.end.state == "completed"
    assert report and (report.asked, report.read_from) == ("node", "volume")
    assert "no cache" in report.why
