"""The report of a sweep: what it shows, and what it leaves out where there is nothing to see."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from blocks.trainer_settings import Resources, TrainerSettings
from tasks.reports.sweep_board import Board, board
from tasks.reports.sweep_page import draw_all, render_sweep, report_page
from tasks.runs.ask import ask_run
from tasks.runs.records import Weights
from tasks.sweeps.ask import ask_sweep
from tasks.sweeps.axes import Point
from tasks.sweeps.records import Inputs, SweepRecord
from tests.tasks.sweeps.conftest import LR, search
from tests.tasks.sweeps.simulated import Simulation

CONFIG = '[model]\nname = "a/b"\n[data]\nname = "datasets/d"\n'
MANY = {f"section.key_{n}": {"range": [0, 1]} for n in range(6)}


def value(point: Point, step: int) -> float | None:
    first = float(point.get("optim.lr", point.get("section.key_0", 0)))
    return None if first > 0.04 and len(point) == 1 else first + 1 / step


def swept(method: str, axes: dict[str, Any] = LR, **more: Any) -> Board:
    how = search(method, axes, **more)
    simulation = Simulation(how, value)
    simulation.run()
    base = ask_run("s", CONFIG, TrainerSettings(kind="tiny", resources=Resources()), volume="v")
    request = ask_sweep("s", how, base)
    record = SweepRecord(
        sweep="s",
        volume="v",
        request=request,
        request_hash=request.request_hash(),
        inputs=(Inputs(model="a/b", data="datasets/d", weights=Weights(path="weights")),),
        created_at=datetime.now(UTC),
        version="0",
    )
    return board(record, simulation.state)


def curves(found: Board) -> dict[str, list[tuple[int, float]]]:
    rows = [row for row in found.rows if row.state != "failed"]
    return {
        row.run: [(s, value(row.point, s) or 0) for s in range((row.parent_step or 0) + 1, row.step + 1)]
        for row in rows
    }


SWEEPS: dict[str, Callable[[], Board]] = {
    "grid": lambda: swept("grid", {"optim.lr": {"choices": [0.001, 0.05]}, "a": {"choices": [[1, 2], "x"]}}),
    "tpe": lambda: swept("tpe", limits={"trials": 12}),
    "halving": lambda: swept("halving", halving={"min_steps": 2, "factor": 3, "rungs": 2}),
    "many axes": lambda: swept("random", MANY, limits={"trials": 100, "parallel": 8}),
}


@pytest.mark.parametrize("name", SWEEPS)
def test_the_page_loads_nothing_and_has_every_run_and_picture(name: str) -> None:
    found = SWEEPS[name]()
    page = render_sweep(found, curves(found))
    assert page.count("<svg") == 3 and all(row.run in page for row in found.rows)
    assert "<script" not in page and not re.search(r'(src|href)="(?!#)', page)
    assert found.best is not None and f"<dd>{found.best.run}: loss" in page
    assert report_page(found, curves(found)).count("data:image/svg+xml;base64,") == 3


def test_the_best_is_red_from_the_base_weights_on() -> None:
    found = SWEEPS["halving"]()
    line = found.best_line
    assert found.best is not None and line[0] == found.best.run and len(line) == found.best.stage + 1 == 2
    assert draw_all(found, curves(found))["curves"].count("stroke: #dc2626; stroke-width: 2;") == 2 + 1, (
        "and the legend"
    )


def test_a_sweep_of_one_trial_compares_nothing() -> None:
    found = swept("random", limits={"trials": 1})
    assert list(draw_all(found, curves(found))) == ["curves"]
    assert "What mattered" not in render_sweep(found, curves(found))


def test_a_sweep_whose_trials_all_failed_has_their_causes_and_no_empty_pictures() -> None:
    found = swept("random", {"optim.lr": {"range": [0.05, 0.06]}}, limits={"trials": 3})
    page = render_sweep(found, {})
    assert "<svg" not in page and page.count("<td>failed</td>") == 3 and "<th>why</th>" in page
    assert "data:image" not in report_page(found, {})
