"""Whoever asks, however often: a run's job is its own, and what was stopped or lost stays so."""

import os
import shutil
from pathlib import Path

import pytest

from blocks.clusters.errors import ProgramError
from blocks.clusters.job import JobState
from blocks.clusters.local.cluster import LocalCluster
from blocks.hub_access import HubAccess
from tasks.runs.ask import ask_fork
from tasks.runs.claim import claim
from tasks.runs.follow import Progress, follow
from tasks.runs.job import RUN_LABEL, job_name
from tasks.runs.launch import launch, prepare, read_run, stop, write_end
from tasks.runs.records import End
from tasks.stages.stage import STAGE_LABEL
from tests.tasks.conftest import Desk


def test_runs_whose_volume_and_name_read_alike_together_have_jobs_of_their_own(
    cluster: LocalCluster, hub_url: str, demo_assets: Path
) -> None:
    first = Desk(cluster, HubAccess(endpoint=hub_url), demo_assets, "x")
    second = Desk(cluster, HubAccess(endpoint=hub_url), demo_assets, "x-y")

    done = [first.train(first.request("y-z")), second.train(second.request("z"))]

    assert done[0].launch.job != done[1].launch.job
    assert [max(p.curve) for p in done] == [12, 12]


def test_a_run_on_a_volume_that_was_made_again_is_another_run(desk: Desk, cluster: LocalCluster) -> None:
    desk.train(desk.request("r"))
    cluster.volumes.delete("v")

    again = desk.train(desk.request("r"))

    assert again.launch.attempt.started or again.end is not None
    assert [c["step"] for c in again.checkpoints if c["verdict"] == "complete"] == [4, 8, 12]
    assert len(cluster.jobs.find({RUN_LABEL: "r"})) == 2


def test_a_volume_that_was_moved_has_all_its_runs_and_checkpoints(
    desk: Desk, cluster: LocalCluster, demo_assets: Path, tmp_path: Path
) -> None:
    desk.train(desk.request("r"))
    desk.train(desk.fork("r", "held", step=4))
    (tmp_path / "cluster").rename(tmp_path / "elsewhere")
    moved = Desk(LocalCluster(tmp_path / "elsewhere", poll_seconds=0.1), desk.hub, demo_assets)

    again, longer = moved.train(moved.request("r")), moved.train(moved.fork("held", "longer", max_steps=16))

    assert again.end is not None and (again.end.state, again.launch.attempt.attempt) == ("completed", 1)
    assert longer.end is not None and longer.end.state == "completed" and max(longer.curve) == 16


def test_a_run_stopped_between_prepare_and_submit_never_starts(desk: Desk, cluster: LocalCluster) -> None:
    record = desk.record(desk.request("r"))
    prepare(cluster, record, 1)

    end = stop(cluster, "v", "r", reason="changed my mind")

    assert end is not None and end.state == "stopped"
    assert cluster.jobs.status([job_name(record, 1)]) == {}
    assert launch(cluster, record, automatic=True).attempt.end == end


def test_jobs_that_nobody_came_to_start_are_started_by_whoever_follows(
    desk: Desk, cluster: LocalCluster, first_starts_fail: list[str]
) -> None:
    done = desk.train(desk.request("r"))

    assert done.end is not None and done.end.state == "completed" and done.launch.attempt.attempt == 1
    assert len(first_starts_fail) == len(cluster.jobs.find({})) == 3  # the model's, the dataset's, the run's


def test_a_job_that_nobody_came_to_start_is_started_when_its_run_is_asked_for_again(
    desk: Desk, cluster: LocalCluster, first_starts_fail: list[str]
) -> None:
    record = desk.record(desk.request("r"))
    (left,) = cluster.jobs.status([launch(cluster, record).job]).values()
    assert left.unstarted

    again = launch(cluster, record, automatic=True)

    assert again.job == left.name and not cluster.jobs.status([left.name])[left.name].unstarted


def test_staging_goes_on_though_an_earlier_jobs_directory_is_gone(
    desk: Desk, cluster: LocalCluster, tmp_path: Path
) -> None:
    volume = tmp_path / "cluster/volumes/me/v"
    for _ in range(3):
        desk.record(desk.request("r"))
        for folder in (volume / "hub", volume / ".slipway/snapshots"):
            for path in sorted(folder.rglob("*")):
                path.chmod(0o755)
            shutil.rmtree(folder)
        jobs = [j for j in cluster.jobs.find({}) if "model" in j.labels.get(STAGE_LABEL, "")]
        cluster.jobs.delete(jobs[0].name)

    desk.record(desk.request("r"))
    assert (volume / "hub").is_dir()


def test_a_fork_whose_source_went_before_it_was_written_down_leaves_its_name_free(
    desk: Desk, cluster: LocalCluster, tmp_path: Path
) -> None:
    desk.train(desk.request("parent"))
    plan = desk.plan(desk.fork("parent", "child", step=4, max_steps=16))
    assert plan.resolved is not None
    shutil.rmtree(tmp_path / "cluster/volumes/me/v/runs/parent/checkpoints/step_4")

    try:
        claim(cluster, plan, plan.resolved.weights, plan.resolved.dataset)
        raise AssertionError("claimed")
    except ProgramError as error:
        assert "step_4" in str(error)

    child = desk.train(desk.fork("parent", "child", step=8, max_steps=16))
    assert child.end is not None and child.end.state == "completed"
    assert read_run(cluster, "v", "child").plan.resolved.source is not None
    assert [j.state for j in cluster.jobs.find({RUN_LABEL: "child"})] == [JobState.COMPLETED]


def test_nothing_is_moved_out_of_what_a_linked_run_directory_leads_to(
    desk: Desk, cluster: LocalCluster, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("mine")
    record = desk.record(desk.request("r"))
    runs = tmp_path / "cluster/volumes/me/v/runs"
    runs.mkdir(exist_ok=True)
    (runs / "r").symlink_to(victim)

    try:
        launch(cluster, record)
        raise AssertionError("launched")
    except ProgramError as error:
        assert "link" in str(error)

    assert (victim / "file").read_text() == "mine"
    assert cluster.jobs.find({RUN_LABEL: "r"}) == []


def test_weights_that_people_change_between_the_plan_and_the_launch_stop_it(
    desk: Desk, cluster: LocalCluster, tmp_path: Path
) -> None:
    first = desk.record(desk.request("first"))
    volume = tmp_path / "cluster/volumes/me/v"
    mine = volume / "models/mine"
    shutil.copytree(volume / first.resolved.weights.path, mine)
    record = desk.record(desk.request("r", model__name="/volume/models/mine"))

    os.utime(mine / "config.json")
    with pytest.raises(ProgramError, match="models/mine are others than those"):
        launch(cluster, record)
    assert read_run(cluster, "v", "r").attempts == ()
    assert desk.train(desk.request("again", model__name="/volume/models/mine")).launch.attempt.resume.kind == "base"


def test_a_trainer_that_saves_elsewhere_is_followed_to_its_end_and_told_of(
    desk: Desk, cluster: LocalCluster, tmp_path: Path, first_starts_fail: list[str]
) -> None:
    (tmp_path / "away").mkdir()
    launched = desk.launch(desk.request("r"))
    home = cluster.volumes.path("v") / "runs/r"
    assert launched.job in first_starts_fail  # it begins once it is followed
    (home / "checkpoints").symlink_to(tmp_path / "away")
    said: list[str] = []

    (done,) = follow(cluster, [launched], lambda progress: said.extend(progress.warnings))

    assert done.end is not None and done.end.state == "completed"
    assert len(said) == 1 and said[0].startswith("checkpoints is not on the volume: a link leads out")
    assert [(c["path"], c["verdict"]) for c in done.checkpoints] == [("checkpoints", "unknown")]


def test_nothing_is_written_down_on_a_volume_that_was_emptied_or_is_not_mounted(
    desk: Desk, cluster: LocalCluster
) -> None:
    launched = desk.launch(desk.request("r", max_steps=4000, pace__step_seconds=0.1))
    other = desk.record(desk.request("other"))
    volume = cluster.volumes.path("v")
    away = volume.with_name("away")

    def unmount(progress: Progress) -> None:
        if not away.exists():
            volume.rename(away)
            volume.mkdir()

    with pytest.raises(ProgramError, match="No run is on record on this volume any more"):
        follow(cluster, [launched], unmount)
    end = End(state="lost", cause="lost", reason="")
    with pytest.raises(ProgramError, match="'r' is no longer on record"):
        write_end(cluster, launched.plan, 1, end)
    assert not (volume / ".slipway").exists()

    cluster.jobs.stop(launched.job)
    shutil.rmtree(volume)
    away.rename(volume)
    assert stop(cluster, "v", "r", reason="x") is not None
    assert read_run(cluster, "v", "other").plan == other


def test_a_step_that_is_elsewhere_is_not_forked_whoever_vouches_for_it(
    desk: Desk, cluster: LocalCluster, tmp_path: Path
) -> None:
    desk.train(desk.request("r"))
    step = cluster.volumes.path("v") / "runs/r/checkpoints/step_12"
    step.rename(tmp_path / "step_12")
    step.symlink_to(tmp_path / "step_12")

    for chosen in ("latest", 12):
        fork = ask_fork(cluster, "v", "r", "f", step=chosen, changes={"max_steps": 20}, trust=("checkpoints/step_12",))
        plan = desk.plan(fork)
        (blocked,) = [item for item in plan.blocked if item.subject == "checkpoint"]
        assert "a link leads out of the run's directory" in blocked.detail and "--trust" not in blocked.remedy
    assert not desk.plan(desk.fork("r", "f", step=8, max_steps=20)).blocked
