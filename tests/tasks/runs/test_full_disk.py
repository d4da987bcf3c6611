"""A volume that fills while a run saves: the run says so, loses nothing, and goes on once there is room."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from blocks.clusters.errors import ProgramError
from blocks.clusters.local.cluster import LocalCluster
from blocks.hub_access import HubAccess
from tasks.runs.deletion import delete
from tasks.runs.follow import Progress, follow
from tasks.runs.launch import Launch, read_run, stop
from tasks.runs.reconcile import orphaned_runs
from tasks.runs.request import RunRequest
from tasks.runs.state import run_state
from tests.tasks.conftest import Desk

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a small disk can not be mounted here: {mounted.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_run_that_fills_its_volume_says_so_and_goes_on_once_there_is_room(
    small_disk: Path, hub_url: str, demo_assets: Path
) -> None:
    desk = Desk(LocalCluster(small_disk, poll_seconds=0.1), HubAccess(endpoint=hub_url), demo_assets)
    request = desk.request("r", max_steps=24, when_full="warn")

    full = desk.train(request)
    assert full.end is not None and full.end.state == "failed"
    assert any("full" in line for line in full.end.last_lines), full.end
    complete = [c["step"] for c in full.checkpoints if c["verdict"] == "complete"]
    assert complete and complete[-1] < 24, full

    subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)
    done = desk.train(request)

    assert done.end is not None and done.end.state == "completed"
    assert done.launch.attempt.resume.step == complete[-1]
    assert done.launch.attempt.set_aside, "the torn step is set aside and reported"


def test_on_a_disk_without_a_byte_left_an_end_is_written_down_and_a_run_can_be_deleted(
    small_disk: Path, hub_url: str, demo_assets: Path
) -> None:
    desk = Desk(LocalCluster(small_disk, poll_seconds=0.1), HubAccess(endpoint=hub_url), demo_assets)
    desk.train(desk.request("old", max_steps=1, ckpt__interval=1))
    launched = desk.launch(desk.request("r", pace__step_seconds=5))

    with (small_disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(1 << 12))
    stopped = desk.cluster.jobs.stop(launched.job, grace_seconds=1)
    (progress,) = follow(desk.cluster, [launched], lambda progress: None)

    assert stopped.state == progress.end.state == "stopped"
    assert delete(desk.cluster, desk.volume, "old").freed_bytes > 0


def test_the_room_for_the_next_save_is_watched_and_a_policy_makes_some(
    small_disk: Path, hub_url: str, demo_assets: Path
) -> None:
    desk = Desk(LocalCluster(small_disk, poll_seconds=0.1), HubAccess(endpoint=hub_url), demo_assets)
    seen: list[tuple[int, str]] = []

    def notice(progress: Progress) -> None:
        complete = [c["step"] for c in progress.checkpoints if c["verdict"] == "complete"]
        seen.extend((complete[-1], text) for text in progress.warnings)

    pace = {"max_steps": 24, "pace__step_seconds": 1, "when_full": "warn"}
    (full,) = follow(desk.cluster, [desk.launch(desk.request("r", **pace))], notice)
    assert full.end is not None and full.end.state == "failed"
    last = max(c["step"] for c in full.checkpoints if c["verdict"] == "complete")
    assert [step for step, _ in seen] == [last], "once, after the last save that fitted"
    assert "the next save would fail" in seen[0][1] and "slipway prune v" in seen[0][1]

    delete(desk.cluster, "v", "r")
    seen.clear()
    request = desk.request("kept", **pace, retention__keep_last=1)
    (kept,) = follow(desk.cluster, [desk.launch(request)], notice)
    assert kept.end is not None and kept.end.state == "completed", kept.end
    assert seen and all("pruned by its policy" in text for _, text in seen)


def held_run(small_disk: Path, hub_url: str, demo_assets: Path) -> tuple[Desk, RunRequest, Launch]:
    desk = Desk(LocalCluster(small_disk, poll_seconds=0.1), HubAccess(endpoint=hub_url), demo_assets)
    request = desk.request("r", max_steps=24, pace__step_seconds=1)
    return desk, request, desk.launch(request)


class StopFollowing(Exception):  # noqa: N818 - no error
    pass


def until_held(desk: Desk, launched: Launch) -> list[str]:
    """Follow a run until it is held, then no longer, as if the flow had been killed; what was said."""
    said: list[str] = []

    def notice(progress: Progress) -> None:
        said.extend(progress.warnings)
        if progress.held:
            raise StopFollowing

    with pytest.raises(StopFollowing):
        follow(desk.cluster, [launched], notice)
    return said


def test_a_run_whose_next_save_does_not_fit_is_held_and_goes_on_by_itself(
    small_disk: Path, hub_url: str, demo_assets: Path
) -> None:
    desk, _, launched = held_run(small_disk, hub_url, demo_assets)
    said: list[str] = []
    states: list[str] = []

    def notice(progress: Progress) -> None:
        said.extend(progress.warnings)
        if progress.held and not states:
            states.append(run_state(desk.cluster, [read_run(desk.cluster, "v", "r")])["r"].state)
            assert not desk.cluster.jobs.status([progress.launch.job])[progress.launch.job].live
            subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)

    (done,) = follow(desk.cluster, [launched], notice)

    assert done.end is not None and done.end.state == "completed" and states == ["held"]
    first, second = read_run(desk.cluster, "v", "r").attempts
    assert first.end and (first.end.state, first.end.cause) == ("stopped", "held")
    complete = [step for step in range(4, 24, 4) if step <= second.resume.step]
    assert second.resume.step == complete[-1], "it goes on from the checkpoint after which it was held"
    assert not second.set_aside, "no save was begun that did not fit"
    assert "held after its newest checkpoint" in said[0] and "goes on as attempt 2" in said[1] and len(said) == 2


def test_a_held_run_stays_held_whoever_asks_and_is_taken_up_without_a_follower(
    small_disk: Path, hub_url: str, demo_assets: Path
) -> None:
    desk, request, launched = held_run(small_disk, hub_url, demo_assets)
    until_held(desk, launched)

    again = desk.launch(request)
    assert again.adopted and again.attempt.attempt == 1, "no attempt begins that would fail"
    assert [r.run for r in orphaned_runs(desk.cluster, "v", timedelta(0), set())] == ["r"]
    assert not orphaned_runs(desk.cluster, "v", timedelta(hours=1), set()), "somebody followed it a moment ago"

    subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)
    done = desk.train(request)
    assert done.end is not None and done.end.state == "completed" and done.launch.attempt.attempt == 2


def test_a_held_run_can_be_stopped(small_disk: Path, hub_url: str, demo_assets: Path) -> None:
    desk, _, launched = held_run(small_disk, hub_url, demo_assets)
    until_held(desk, launched)

    end = stop(desk.cluster, "v", "r", reason="stopped by hand")

    assert end is not None and (end.state, end.cause) == ("stopped", "stopped")
    (progress,) = follow(desk.cluster, [launched_as_found(desk)], lambda progress: None)
    assert progress.end is not None and progress.end.reason == "stopped by hand"
    assert stop(desk.cluster, "v", "r", reason="again") is None


def launched_as_found(desk: Desk) -> Launch:
    record = read_run(desk.cluster, "v", "r")
    return Launch(record.plan, record.attempts[0], adopted=True)


def test_a_volume_that_became_read_only_is_named_so(small_disk: Path, tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "cluster")
    cluster.volumes.create("v", 2**30)
    cluster.volumes.path("v").rmdir()
    cluster.volumes.path("v").symlink_to(small_disk)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    plan = {"trainer": {"metrics": "m"}, "created_at": 1, "resolved": {}}
    with pytest.raises(ProgramError, match="The volume is read-only: ") as said:
        cluster.call("v", "runs.claim", {"run": "r", "plan": plan}, writable=True)
    assert "Traceback" not in str(said.value)
