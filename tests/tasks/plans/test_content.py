from pathlib import Path

import pytest

from tasks.plans.plan import Mark, PlanError
from tasks.plans.staged import refuse_misfit
from tasks.runs.request import RunRequest
from tasks.stages.source import DatasetRequest
from tasks.stages.staged import stage_dataset
from tasks.stages.volume import ensure_volume
from tests.tasks.conftest import Desk


def _asking(desk: Desk, folder: Path, line: str) -> RunRequest:
    folder.mkdir()
    (folder / "train.jsonl").write_text(line)
    asked = DatasetRequest(name="harbour", source=str(folder), version="v1")
    ensure_volume(desk.cluster, desk.volume, 2**30)
    return desk.request("r", data__name="datasets/harbour/v1").model_copy(update={"dataset": asked})


def test_columns_that_the_trainer_can_not_read_stop_a_run_before_and_after_staging(desk: Desk, tmp_path: Path) -> None:
    request = _asking(desk, tmp_path / "d", '{"messages": []}\n')
    plan = desk.plan(request)
    assert not plan.blocked and request.dataset
    dataset = stage_dataset(desk.cluster, desk.hub, desk.volume, request.dataset, lambda note: None)

    with pytest.raises(PlanError, match="its columns are messages"):
        refuse_misfit(desk.cluster, plan, dataset)
    assert "its columns are messages" in desk.plan(request).blocked[0].detail


def test_lines_that_do_not_parse_are_warned_of(desk: Desk, tmp_path: Path) -> None:
    request = _asking(desk, tmp_path / "d", '{"text": "a"}\nnot json\n')
    assert request.dataset
    stage_dataset(desk.cluster, desk.hub, desk.volume, request.dataset, lambda note: None)

    warnings = [item.detail for item in desk.plan(request).items if item.mark is Mark.WARNING]

    assert any("line 2 is no JSON" in warning for warning in warnings)
