"""Sweeps with real trainers, driven by a process that is killed twice: on the local cluster, and, where somebody has
ten minutes, on Kubernetes (`pytest -m "cluster and slow"`)."""

import contextlib
import pickle
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from blocks.clusters.local.cluster import LocalCluster
from blocks.hub_access import HubAccess
from deployments.stack import PROJECT
from tasks.runs.job import RUN_LABEL, VOLUME_LABEL
from tasks.runs.launch import read_run
from tasks.sweeps.drive import Drive
from tasks.sweeps.log import Start, State, read_entry
from tasks.sweeps.records import SweepRecord, read_sweep
from tests.cluster.access import TestCluster, owner_of_its_own
from tests.kubernetes.conftest import on_this_machine
from tests.tasks.conftest import Desk
from tests.tasks.sweeps.conftest import SweepDesk, search

AXES = {"optim.lr": {"choices": [0.001, 0.004, 0.01]}, "data.batch_size": {"choices": [1, 2, 3, 4]}}


def drive_and_kill_twice(
    sweeps: SweepDesk, folder: Path, record: SweepRecord, *moments: Callable[[State], bool]
) -> State:
    """Drive a sweep in processes of their own; each is killed at a moment, the last one comes to the end."""
    cluster, volume = sweeps.desk.cluster, sweeps.desk.volume
    pickled = folder / "cluster.pickle"
    pickled.write_bytes(pickle.dumps(cluster))
    argv = [sys.executable, "-m", "tests.tasks.sweeps.driving", str(pickled), volume, record.sweep]
    for moment in moments:
        process = subprocess.Popen(argv, cwd=PROJECT)
        deadline = time.monotonic() + 600
        while not moment(state := read_sweep(cluster, volume, record.sweep)[1]):
            assert time.monotonic() < deadline and process.poll() is None, state
            time.sleep(0.05)
        process.kill()
        process.wait()
        assert state.over is None, "it was over before it could be killed"
    subprocess.run(argv, cwd=PROJECT, check=True)
    return read_sweep(cluster, volume, record.sweep)[1]


def check_none_twice_and_none_forgotten(sweeps: SweepDesk, state: State) -> None:
    cluster, volume = sweeps.desk.cluster, sweeps.desk.volume
    assert state.over is not None and not state.live
    jobs = cluster.jobs.find({VOLUME_LABEL: volume})
    assert Counter(job.labels[RUN_LABEL] for job in jobs) == dict.fromkeys(state.nodes, 1)
    assert not any(job.live for job in jobs)
    for run, node in state.nodes.items():
        (attempt,) = read_run(cluster, volume, run).attempts
        assert attempt.end is not None and node.end is not None, run
        assert attempt.end.state == "completed" or node.replaced_by, run


@pytest.fixture
def on_pods(kubernetes: TestCluster, hub_url: str, demo_assets: Path) -> Iterator[SweepDesk]:
    with owner_of_its_own(kubernetes) as owner:
        cluster = kubernetes.connect(owner, pod_patch=on_this_machine(demo_assets))
        yield SweepDesk(Desk(cluster, HubAccess(endpoint=hub_url), demo_assets))


SLOW = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(3600)]
either = pytest.mark.parametrize("found", ["sweeps", pytest.param("on_pods", marks=SLOW)])


@either
def test_a_grid_of_twelve_goes_on_where_it_was_killed(
    found: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    sweeps: SweepDesk = request.getfixturevalue(found)
    how = search("grid", AXES, limits={"parallel": 4})
    record = sweeps.record(sweeps.request("g", how, max_steps=2, ckpt__interval=2, pace__step_seconds=0.7))

    state = drive_and_kill_twice(
        sweeps, tmp_path, record, lambda s: len(s.nodes) > len(s.live), lambda s: len(s.nodes) - len(s.live) >= 5
    )

    check_none_twice_and_none_forgotten(sweeps, state)
    points = [(node.start.point["optim.lr"], node.start.point["data.batch_size"]) for node in state.nodes.values()]
    assert sorted(points) == [(lr, size) for lr in (0.001, 0.004, 0.01) for size in (1, 2, 3, 4)]
    best = state.ranked(1)[0]
    assert best.value == min(node.value for node in state.nodes.values() if node.value is not None)
    config = read_run(sweeps.desk.cluster, "v", best.start.run).plan.config
    assert config["optim"]["lr"] == best.start.point["optim.lr"]


@either
@pytest.mark.long
def test_halving_of_27_forks_the_best_third_of_each_rung(
    found: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    sweeps: SweepDesk = request.getfixturevalue(found)
    how = search("halving", limits={"parallel": 6}, halving={"min_steps": 1, "factor": 3, "rungs": 3})
    record = sweeps.record(sweeps.request("h", how, ckpt__interval=9))

    state = drive_and_kill_twice(
        sweeps,
        tmp_path,
        record,
        lambda s: len(s.nodes) - len(s.live) >= 3,
        lambda s: any(node.start.stage for node in s.nodes.values()),
    )

    check_none_twice_and_none_forgotten(sweeps, state)
    rungs = Counter(node.start.stage for node in state.nodes.values())
    assert rungs[0] == 27 and rungs[1] >= 9 and rungs[2] >= 3
    assert {n.end.step for n in state.nodes.values() if n.end} == {1, 3, 9}
    for run, parent, done in promotions(sweeps, "h"):
        mine = [node.start.run for node in done.ranked(1) if node.start.stage == done.nodes[parent].start.stage]
        assert parent in mine[: len(mine) // 3], "it was among the best third of those that had come so far"
        source = read_run(sweeps.desk.cluster, "v", run).plan.resolved.source
        assert source is not None and (source.run, source.step) == (parent, done.nodes[parent].end.step)  # type: ignore[union-attr]
        assert sweeps.desk.cluster.call("v", "transfer.ls", {"path": source.hold, "recursive": False})["entries"]


@either
@pytest.mark.long
def test_a_population_of_eight_over_four_intervals(found: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    sweeps: SweepDesk = request.getfixturevalue(found)
    pbt = {"population": 8, "interval": 5, "intervals": 4}
    how = search("pbt", limits={"parallel": 8}, pbt=pbt, seed=3)
    record = sweeps.record(sweeps.request("p", how, ckpt__interval=5, pace__step_seconds=0.25))

    state = drive_and_kill_twice(sweeps, tmp_path, record, lambda s: len(s.live) >= 8, lambda s: 1 in s.intervals)

    check_none_twice_and_none_forgotten(sweeps, state)
    assert state.trials == 8 and sorted(state.intervals) == [1, 2, 3]
    forks = [node for node in state.nodes.values() if node.start.origin]
    assert forks
    for fork in forks:
        start, interval = fork.start, state.intervals[fork.start.stage]
        assert start.origin is not None
        parent = state.nodes[start.origin.run].start
        ranked = sorted((t for t, s in interval.scores.items() if s is not None), key=lambda t: interval.scores[t] or 0)
        assert parent.trial in ranked[:2] and start.trial in ranked[-2:]
        assert start.origin.step % 5 == 0 and start.point != parent.point
        resume = read_run(sweeps.desk.cluster, "v", start.run).attempts[0].resume
        assert (resume.kind, resume.step) == ("hold", start.origin.step)


def test_a_sweep_that_has_used_up_its_gpu_hours_stops_what_trains_and_ends(desk: Desk, tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "gpus", gpus={"x": 2}, poll_seconds=0.1)
    sweeps = SweepDesk(Desk(cluster, desk.hub, desk.assets))
    how = search(limits={"trials": 50, "parallel": 2, "gpu_hours": 2 / 3600})
    state = sweeps.run(sweeps.request("u", how, gpus=1, max_steps=1000, pace__step_seconds=0.1))

    assert state.over is not None and "GPU hours are used up" in state.over.reason
    assert [node.end.state for node in state.nodes.values() if node.end] == ["stopped", "stopped"]
    assert state.gpu_hours >= 2 / 3600 and not any(job.live for job in cluster.jobs.find({}))


def test_a_trial_whose_process_is_lost_goes_on_as_the_same_trial(sweeps: SweepDesk) -> None:
    how = search(limits={"trials": 2, "parallel": 2})
    lost: list[str] = []

    def lose_one(drive: Drive) -> None:
        """Kill the supervisor and the program of a trial, as a machine that goes down does."""
        for run, progress in drive.watched.items():
            saved = any(checkpoint["verdict"] == "complete" for checkpoint in progress.checkpoints)
            if saved and progress.end is None and not lost:
                lost.append(run)
                end_processes_of(progress.launch.job)

    state = sweeps.run(sweeps.request("l", how, max_steps=80, ckpt__interval=5, pace__step_seconds=0.1), lose_one)

    assert state.trials == 2 and state.failed == 0 and lost
    attempts = read_run(sweeps.desk.cluster, "v", lost[0]).attempts
    assert [a.end.state for a in attempts if a.end] == ["lost", "completed"]
    assert attempts[1].resume.kind == "own" and attempts[1].resume.step >= 5


def test_trials_whose_jobs_nobody_came_to_start_are_started_by_the_next_who_drives(
    sweeps: SweepDesk, first_starts_fail: list[str]
) -> None:
    record = sweeps.record(sweeps.request("u", search(limits={"trials": 3, "parallel": 2})))
    Drive(sweeps.desk.cluster, record, lambda drive: None).one_turn()

    state = Drive(sweeps.desk.cluster, record, lambda drive: None).to_its_end()

    assert state.trials == 3 and state.failed == 0
    check_none_twice_and_none_forgotten(sweeps, state)


def end_processes_of(job: str) -> None:
    """The supervisor first: it would write down how the program ended."""
    named = [p for p in psutil.process_iter() if _words(p).count(job)]
    for process in sorted(named, key=lambda p: "supervisor" not in _words(p)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()) + process.environ().get("SLIPWAY_SCRATCH", "")
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""


def promotions(sweeps: SweepDesk, sweep: str) -> list[tuple[str, str, State]]:
    """Each fork of a sweep, its parent, and where the sweep stood when it was decided."""
    shown = sweeps.desk.cluster.call("v", "sweeps.show", {"sweep": sweep})
    entries = [read_entry(entry) for turn in shown["turns"] for entry in turn]
    found = []
    for place, entry in enumerate(entries):
        if isinstance(entry, Start) and entry.origin:
            before = State()
            for earlier in entries[:place]:
                before.apply(earlier)
            found.append((entry.run, entry.origin.run, before))
    return found
