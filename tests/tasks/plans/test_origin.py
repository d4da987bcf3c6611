"""What is said before a launch of a checkpoint that can not be continued as asked."""

import shutil
import tarfile
from pathlib import Path

from tasks.plans.plan import Mark, Plan
from tasks.pod.layout import Layout
from tests.tasks.conftest import Desk
from tests.tasks.pod.retained import root_of

CORPUS = Path(__file__).parents[2] / "data/checkpoints"


def warnings(plan: Plan) -> list[str]:
    return [f"{i.subject}: {i.detail} {i.remedy}" for i in plan.items if i.mark is Mark.WARNING]


def test_a_changed_end_with_a_schedule_that_is_taken_over_is_warned_of_with_the_remedy(desk: Desk) -> None:
    desk.train(desk.request("parent", scheduler__type="cosine", max_steps=8))
    (warning,) = warnings(desk.plan(desk.fork("parent", "longer", max_steps=16)))
    assert warning.startswith("learning rate schedule: cosine, taken over from the checkpoint, was made for 8 steps")
    assert "after step 8 it runs past its end" in warning and "skip_scheduler = true" in warning
    (warning,) = warnings(desk.plan(desk.fork("parent", "shorter", 4, max_steps=6)))
    assert "cut off before its end" in warning
    assert not warnings(desk.plan(desk.fork("parent", "same", 4)))
    assert not warnings(desk.plan(desk.fork("parent", "new", max_steps=16, ckpt__skip_scheduler=True)))


def test_another_number_of_ranks_is_refused_where_the_trainer_can_not_reshard(desk: Desk, tmp_path: Path) -> None:
    desk.train(desk.request("parent", max_steps=4))
    with tarfile.open(CORPUS / "dcp-two-ranks.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    (saved,) = sorted(tmp_path.glob("**/step_*"))[-1:]
    layout = Layout(root_of(desk.cluster, desk.volume))
    shutil.copytree(saved, layout.root / "runs/theirs/checkpoints/step_6")
    asked = desk.request("fork", **{"resume.dir": "/volume/runs/theirs/checkpoints/step_6"}, max_steps=16)
    (blocked,) = desk.plan(asked).blocked
    assert "was saved by 2 ranks, and this run would have 1" in blocked.detail
