"""The plan says what stands in the way, each in one line, before any job is launched."""

from pathlib import Path

import pytest

from blocks.clusters.job import JobState
from blocks.clusters.local.cluster import LocalCluster
from blocks.hub_access import HubAccess
from blocks.trainer_settings import Resources
from tasks.plans.plan import Item, Mark, Plan
from tasks.runs.request import RunRequest
from tests.tasks.conftest import CONFIG, Desk


def blocked(plan: Plan) -> Item:
    """The one thing that blocks a plan."""
    assert len(plan.blocked) == 1, plan.items
    return plan.blocked[0]


def test_a_plan_says_what_it_would_do_and_does_none_of_it(desk: Desk, cluster: LocalCluster) -> None:
    plan = desk.plan(desk.request("r"))

    assert not plan.blocked
    assert [i.subject for i in plan.items if i.mark is Mark.TO_DO] == ["volume v", "model slipway/tiny-lm", "dataset"]
    assert cluster.volumes.list() == [] and cluster.jobs.find({}) == []


def test_every_problem_is_found_at_once(desk: Desk) -> None:
    plan = desk.plan(
        desk.request("r", optim__lr=-1, optm=1, resources=Resources(gpus=4), volume_size="1Mi", model__name="no/such")
    )
    assert {i.subject for i in plan.blocked} >= {"config optim.lr", "config optm", "GPUs"}


@pytest.mark.parametrize(
    ("changes", "subject", "words"),
    [
        ({"optim__lrr": 1}, "config optim.lrr", ["lr"]),
        ({"max_steps": 0}, "config max_steps", []),
        ({"model__name": "slipway/absent"}, "weights", ["slipway/absent"]),
        ({"model__name": "slipway/tiny-lm@nope"}, "weights", ["nope", "main"]),
        ({"model__name": "/volume/models/none"}, "weights", ["does not exist yet"]),
        ({"data__name": "datasets/absent"}, "dataset", ["datasets/absent"]),
    ],
)
def test_what_cannot_work_is_refused_with_its_name(
    desk: Desk, changes: dict[str, object], subject: str, words: list[str]
) -> None:
    item = blocked(desk.plan(desk.request("r", **changes)))

    assert item.subject == subject
    assert item.remedy
    for word in words:
        assert word in f"{item.detail} {item.remedy}"


def test_a_volume_that_is_being_deleted_is_no_place_for_a_run(
    desk: Desk, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.record(desk.request("r"))

    def killed(*_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr("blocks.clusters.local.volumes.remove_tree", killed)
    with pytest.raises(InterruptedError):
        cluster.volumes.delete("v")

    item = desk.plan(desk.request("again")).blocked[0]
    assert (item.subject, item.remedy) == ("volume v", "Name another volume.")
    assert item.detail.startswith("is deleting")


def test_a_volume_too_small_for_what_is_to_be_staged_is_refused(desk: Desk, cluster: LocalCluster) -> None:
    fresh = blocked(desk.plan(desk.request("r", volume_size="1Mi")))
    cluster.volumes.create("v", 2**20)
    existing = blocked(desk.plan(desk.request("r")))

    for item in (fresh, existing):
        assert item.subject == "volume v" and "2.1Mi are to be staged" in item.detail


def test_a_gpu_that_the_cluster_has_not_is_refused(hub_url: str, demo_assets: Path, tmp_path: Path) -> None:
    desk = Desk(LocalCluster(tmp_path, gpus={"a100": 2}), HubAccess(endpoint=hub_url), demo_assets)

    assert not desk.plan(desk.request("r", resources=Resources(gpus=2, gpu_kind="a100"))).blocked
    assert "2 a100" in blocked(desk.plan(desk.request("r", resources=Resources(gpus=3, gpu_kind="a100")))).detail
    assert "1 h100" in blocked(desk.plan(desk.request("r", resources=Resources(gpus=1, gpu_kind="h100")))).detail


@pytest.mark.parametrize("name", ["Capital", "under_score", "-lead", "x" * 64, ""])
def test_bad_names_are_refused_before_the_cluster_is_asked(desk: Desk, name: str) -> None:
    request = desk.request("r")
    assert blocked(desk.plan(request.model_copy(update={"volume": name}))).subject == f"volume {name}"
    assert blocked(desk.plan(request.model_copy(update={"run": name}))).subject == f"run {name}"


def test_an_unreachable_hub_is_found_at_plan_time(cluster: LocalCluster, demo_assets: Path) -> None:
    desk = Desk(cluster, HubAccess(endpoint="http://127.0.0.1:9"), demo_assets)
    assert "127.0.0.1:9" in blocked(desk.plan(desk.request("r"))).detail


def test_a_differing_size_of_a_volume_that_exists_is_noted_and_not_applied(desk: Desk, cluster: LocalCluster) -> None:
    cluster.volumes.create("v", 2**30)
    plan = desk.plan(desk.request("r", volume_size="2Gi"))

    assert not plan.blocked
    assert [i.subject for i in plan.items if i.mark is Mark.WARNING] == ["volume v"]
    assert cluster.volumes.get("v").size == 2**30


class TestForks:
    @pytest.fixture
    def parent(self, desk: Desk) -> RunRequest:
        request = desk.request("parent")
        assert desk.train(request).end is not None
        return request

    def test_the_same_request_is_the_same_run_and_another_one_shows_the_difference(
        self, desk: Desk, parent: RunRequest
    ) -> None:
        again = desk.plan(parent)
        other = desk.plan(desk.request("parent", optim__lr=0.1))

        assert not again.blocked and again.record is not None
        assert "config.optim.lr: 0.004 → 0.1" in blocked(other).detail

    def test_max_steps_that_leave_nothing_to_train_are_refused(self, desk: Desk, parent: RunRequest) -> None:
        item = blocked(desk.plan(desk.fork("parent", "child")))
        assert item.subject == "config max_steps" and "above 12" in item.remedy

    def test_a_step_that_is_not_there_names_the_newest_complete_one(self, desk: Desk, parent: RunRequest) -> None:
        item = blocked(desk.plan(desk.fork("parent", "child", step=7, max_steps=20)))
        assert "no step 7" in item.detail and "step 12" in item.remedy

    def test_a_torn_step_is_refused_with_the_reason(
        self, desk: Desk, parent: RunRequest, cluster: LocalCluster, tmp_path: Path
    ) -> None:
        torn = tmp_path / "cluster/volumes/me/v/runs/parent/checkpoints/step_12"
        (torn / "complete.json").unlink()

        item = blocked(desk.plan(desk.fork("parent", "child", step=12, max_steps=20)))
        latest = desk.plan(desk.fork("parent", "child", max_steps=20))

        assert "incomplete" in item.detail and "step 8" in item.remedy
        assert latest.resolved is not None and latest.resolved.source is not None
        assert latest.resolved.source.step == 8

    def test_a_training_checkpoint_as_model_is_refused_with_the_words_that_help(
        self, desk: Desk, parent: RunRequest
    ) -> None:
        item = blocked(desk.plan(desk.request("r", model__name="/volume/runs/parent/checkpoints/step_12")))
        assert "resume" in f"{item.detail} {item.remedy}"

    def test_resume_dir_in_a_config_is_a_fork(self, desk: Desk, parent: RunRequest) -> None:
        config = CONFIG + '[resume]\ndir = "/volume/runs/parent/checkpoints/step_8"\n'
        progress = desk.train(desk.request("chained", config, max_steps=16))

        assert progress.end is not None and progress.end.state == "completed"
        assert min(progress.curve) == 9
        source = progress.launch.plan.resolved.source
        assert source is not None and (source.run, source.step) == ("parent", 8)

    def test_a_fork_takes_its_parents_commit_though_the_branch_has_moved(self, desk: Desk, parent: RunRequest) -> None:
        desk.hub = HubAccess(endpoint="http://127.0.0.1:9")  # the commit is staged: no Hub is asked
        plan = desk.plan(desk.fork("parent", "child", max_steps=16))

        assert not plan.blocked
        assert plan.snapshot is not None and plan.snapshot.staged

    def test_an_unchanged_fork_reproduces_the_uninterrupted_run(self, desk: Desk, parent: RunRequest) -> None:
        whole = desk.train(desk.request("whole", max_steps=20)).curve
        child = desk.train(desk.fork("parent", "child", step=8, max_steps=20)).curve

        assert {s: row["loss"] for s, row in child.items()} == {s: whole[s]["loss"] for s in range(9, 21)}

    def test_a_fork_survives_the_loss_of_its_parents_checkpoints(
        self, desk: Desk, parent: RunRequest, cluster: LocalCluster, tmp_path: Path
    ) -> None:
        record = desk.record(desk.fork("parent", "child", max_steps=16))
        for path in sorted((tmp_path / "cluster/volumes/me/v/runs/parent").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()

        progress = desk.train(record.request)

        assert progress.end is not None and progress.end.state == "completed"
        assert [j.state for j in cluster.jobs.find({"slipway.dev/run": "child"})] == [JobState.COMPLETED]


def test_without_its_hub_a_run_is_told_how_to_use_what_is_staged(desk: Desk) -> None:
    commit = desk.record(desk.request("first")).resolved.weights.commit
    away = Desk(desk.cluster, HubAccess(endpoint="http://127.0.0.1:9"), desk.assets)

    (blocked,) = away.plan(away.request("second")).blocked
    assert f"slipway/tiny-lm@{commit}" in blocked.remedy
    assert not away.plan(away.request("third", model__name=f"slipway/tiny-lm@{commit}")).blocked
