"""Stop rules: a trial, or the whole sweep, that is not worth going on with; each stop is on record with its reason."""

import sys
from pathlib import Path

import pytest

from blocks.clusters.errors import UsageError
from blocks.trainer_settings import Resources, TrainerSettings
from tasks.pod.metrics import read_metrics
from tasks.reports.sweep_board import board
from tasks.runs.ask import ask_run
from tasks.runs.launch import read_run
from tasks.stages.source import DatasetRequest
from tasks.sweeps.ask import ask_sweep, read_search
from tasks.sweeps.axes import Point
from tasks.sweeps.log import End, Over, Stop, read_entry
from tasks.sweeps.plan import make_sweep_plan
from tasks.sweeps.records import read_sweep
from tasks.sweeps.spec import Search, SweepRequest
from tests.tasks.sweeps.conftest import SweepDesk, search
from tests.tasks.sweeps.simulated import Simulation

ONE_TO_NINE = {"optim.lr": {"choices": [5, 3, 4, 1, 2, 6, 7, 8, 9]}}


def rate(point: Point, step: int) -> float | None:
    return float(point["optim.lr"])


def one_to_nine(**stop: object) -> Search:
    return search("grid", ONE_TO_NINE, limits={"parallel": 1}, stop=stop)


def values(simulation: Simulation) -> list[float | None]:
    return [node.value for node in simulation.state.nodes.values()]


def test_the_sweep_is_over_once_a_trial_reaches_the_target() -> None:
    simulation = Simulation(one_to_nine(target=3.5), rate)
    assert simulation.run().over == Over(reason="loss 3 of s-t002 reaches the target, 3.5")
    assert values(simulation) == [5, 3]


def test_a_target_is_above_where_more_is_better_and_what_trains_is_stopped() -> None:
    how = search("grid", ONE_TO_NINE, direction="maximize", limits={"parallel": 3}, stop={"target": 5})
    simulation = Simulation(how, rate)
    simulation.decide()
    simulation.finish("s-t001")
    simulation.decide()
    assert [node.start.run for node in simulation.state.to_stop] == ["s-t002", "s-t003"]


def test_nothing_new_begins_after_trials_that_better_nothing() -> None:
    simulation = Simulation(one_to_nine(patience=3), rate)
    assert simulation.run().over == Over(reason="3 trials in a row did not better the best")
    assert values(simulation) == [5, 3, 4, 1, 2, 6, 7]


def test_what_betters_the_best_by_too_little_does_not_count() -> None:
    simulation = Simulation(one_to_nine(patience=2, min_delta=2.5), rate)
    simulation.run()
    assert values(simulation) == [5, 3, 4], "3 and 4 are within 2.5 of 5"


def by_lr(point: Point, step: int) -> float | None:
    return float(point["optim.lr"]) + 1 / step


def test_what_is_worse_than_the_median_at_a_step_is_stopped_there() -> None:
    how = one_to_nine(median_after=2, median_trials=3)
    simulation = Simulation(how, by_lr)
    simulation.decide()
    for _ in range(3):
        simulation.finish(simulation.state.live[0].start.run)
        simulation.decide()
    (fourth,) = simulation.state.live  # 5, 3 and 4 are over: the median is 4
    assert simulation.decide() == [] and fourth.start.point["optim.lr"] == 1
    simulation.finish(fourth.start.run)
    for run, lr, stopped in (("s-t005", 2, False), ("s-t006", 6, True)):
        simulation.decide()
        simulation.steps[run] = 5
        found = simulation.decide()
        assert simulation.state.nodes[run].start.point["optim.lr"] == lr
        assert [type(entry) for entry in found] == ([Stop] if stopped else [])
        simulation.finish(run)
    end = simulation.state.nodes["s-t006"].end
    assert end is not None and (end.state, end.cause) == ("stopped", "median")
    assert end.reason == "at step 4 its loss was 6.25, and the median 3.25"
    again = Simulation(how, by_lr, [read_entry(entry.model_dump(mode="json")) for entry in simulation.log])
    assert again.state.median(4, 3) == simulation.state.median(4, 3) is not None, "it is in the log"


def test_a_trial_that_diverged_is_stopped_once_and_its_place_in_a_population_is_taken() -> None:
    pbt = {"population": 4, "interval": 5, "intervals": 3}
    simulation = Simulation(search("pbt", limits={"parallel": 4}, pbt=pbt), by_lr)
    simulation.decide()
    simulation.unsound = {"s-t002": "its loss is NaN or infinite at step 3"}
    (stop,) = simulation.decide()
    assert isinstance(stop, Stop) and simulation.decide() == []
    simulation.apply(End(run="s-t002", state="stopped", cause=stop.cause, reason=stop.reason))
    simulation.steps |= dict.fromkeys(("s-t001", "s-t003", "s-t004"), 6)
    forks = {entry.trial for entry in simulation.decide() if entry.kind == "start"}
    assert 2 in forks


@pytest.mark.parametrize("method", ["random", "tpe"])
def test_a_search_goes_on_past_what_was_stopped(method: str) -> None:
    how = search(method, limits={"trials": 30, "parallel": 2}, stop={"median_after": 2, "median_trials": 4})
    simulation = Simulation(how, by_lr)
    simulation.decide()
    while simulation.state.over is None:
        run = simulation.state.live[0].start.run
        simulation.steps[run] = 4
        simulation.decide()
        simulation.finish(run)
        simulation.decide()
    states = [node.end.state for node in simulation.state.nodes.values() if node.end]
    assert len(states) == 30 and states.count("stopped") >= 4 and states.count("completed") >= 8


@pytest.mark.parametrize(
    ("stop", "more", "words"),
    [
        ({"patience": 3}, {"method": "halving"}, "patience is for grid, random and tpe"),
        ({"median_after": 3}, {"method": "halving"}, "median_after is for grid, random and tpe"),
        ({"min_delta": 0.1}, {}, "is not set"),
        ({"target": "low"}, {}, r"stop\.target"),
        ({"patients": 3}, {}, r"stop\.patients is unknown; did you mean patience"),
    ],
)
def test_a_rule_that_can_not_be_is_named(stop: dict[str, object], more: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_search({"axes": ONE_TO_NINE, "stop": stop, **more}, "the search")


def test_metrics_that_are_no_numbers_are_told_from_those_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": NaN, "val_loss": null}\n{"step": 2, "loss": 1.5}\n')
    rows, _ = read_metrics(path)
    assert rows == [{"step": 1, "loss": None, "not_finite": ["loss"]}, {"step": 2, "loss": 1.5}]


TRAINER = """
import json, pathlib, sys, time, tomllib
config, output = tomllib.loads(pathlib.Path(sys.argv[1]).read_text()), pathlib.Path(sys.argv[2])
rate = config["optim"]["lr"]
with (output / "metrics.jsonl").open("w", buffering=1) as file:
    for step in range(1, 13 if rate < 5 else 3000):
        loss = float("nan") if rate > 9 and step > 2 else rate + 1 / step
        file.write(json.dumps({"step": step, "loss": loss}) + "\\n")
        time.sleep(0.02 if rate < 5 else 0.1)
"""


def ask(sweeps: SweepDesk, how: Search) -> SweepRequest:
    """A sweep of a program that reports its rate as its loss, and NaN where that is above nine."""
    options = {
        "command": [sys.executable, "-c", TRAINER, "{config}", "{output}"],
        "keys": {"model": "model.name", "dataset": "data.name"},
    }
    base = ask_run(
        "d",
        '[model]\nname = "slipway/tiny-lm"\n[data]\nname = "datasets/harbour"\n[optim]\nlr = 1\n',
        TrainerSettings(kind="command", options=options, resources=Resources(cpus=0.1)),
        volume="v",
        dataset=DatasetRequest(name="harbour", source=str(sweeps.desk.assets / "harbour")),
    )
    return ask_sweep("d", how, base)


def test_trials_that_diverge_or_are_below_the_median_are_stopped_and_the_board_says_why(sweeps: SweepDesk) -> None:
    stop = {"median_after": 4, "median_trials": 2, "patience": 99}
    how = search("grid", {"optim.lr": {"choices": [1, 2, 10, 6]}}, limits={"parallel": 2}, stop=stop)
    request = ask(sweeps, how)
    plan = make_sweep_plan(sweeps.desk.cluster, sweeps.desk.hub, request)
    assert any("99 trials in a row" in item.detail for item in plan.items)

    sweeps.run(request)

    record, state = read_sweep(sweeps.desk.cluster, "v", "d")
    ends = {node.start.point["optim.lr"]: node.end for node in state.nodes.values() if node.end}
    assert {rate: (end.state, end.cause) for rate, end in ends.items() if rate > 2} == {
        10: ("stopped", "diverged"),
        6: ("stopped", "median"),
    }
    assert [ends[rate].state for rate in (1, 2)] == ["completed", "completed"]
    assert ends[10].step < 2999 and ends[6].step < 2999, "their programs were stopped"
    assert ends[10].value is None and "its loss is NaN or infinite at step" in ends[10].reason
    for run in state.nodes:
        (attempt,) = read_run(sweeps.desk.cluster, "v", run).attempts
        assert attempt.end is not None
    rows = board(record, state).table()
    assert {row["optim.lr"]: row["why"].split(" ")[0] for row in rows if row["state"] == "stopped"} == {
        "10": "its",
        "6": "at",
    }
