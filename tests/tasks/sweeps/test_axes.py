"""The search space: what is drawn, what a grid has, what can not be."""

import random
from datetime import date
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from blocks.clusters.errors import UsageError
from tasks.pod.errors import BadInputError
from tasks.runs.alike import place_of
from tasks.sweeps.axes import Axis, check_axes, draw, grid, ordered, points_of_grid
from tasks.sweeps.proposals import RandomDice, _internal, mutate, seeded
from tests.tasks.sweeps.conftest import search

AXES = {
    "optim.lr": Axis(log_range=(1e-4, 1e-1)),
    "data.batch_size": Axis(log_int_range=(1, 64)),
    "data.seq_len": Axis(int_range=(8, 32), step=8),
    "optim.weight_decay": Axis(range=(0.0, 0.1), step=0.05),
    "scheduler.type": Axis(choices=("constant", "cosine")),
    "ckpt.skip_scheduler": Axis(choices=(True,), when={"scheduler.type": "cosine"}),
}


@given(st.integers(0, 2**32))
def test_what_is_drawn_or_mutated_lies_in_the_space(seed: int) -> None:
    point = draw(AXES, RandomDice(random.Random(seed)))
    how = search("pbt", {k: a.model_dump() for k, a in AXES.items()}, limits={"parallel": 8})
    for found in (point, mutate(how, point, 1, seed)):
        assert 1e-4 <= found["optim.lr"] <= 1e-1
        assert found["data.batch_size"] in range(1, 65)
        assert found["data.seq_len"] in (8, 16, 24, 32)
        assert found["optim.weight_decay"] in (0.0, 0.05, 0.1)
        assert ("ckpt.skip_scheduler" in found) == (found["scheduler.type"] == "cosine")


def test_a_grid_has_each_point_once_and_leaves_out_what_does_not_count() -> None:
    axes = {k: AXES[k] for k in ("scheduler.type", "ckpt.skip_scheduler", "data.seq_len")}
    axes["optim.lr"] = Axis(log_range=(0.001, 0.1), points=3)
    points = list(grid(axes))
    assert len(points) == 2 * 4 * 3
    assert sorted({p["optim.lr"] for p in points}) == [0.001, 0.01, 0.1]
    assert all(("ckpt.skip_scheduler" in p) == (p["scheduler.type"] == "cosine") for p in points)


def test_orders_of_magnitude_are_drawn_alike() -> None:
    drawn = [draw({"lr": Axis(log_range=(1e-4, 1.0))}, RandomDice(random.Random(n)))["lr"] for n in range(400)]
    assert 130 < sum(lr < 1e-2 for lr in drawn) < 270


def test_an_axis_comes_after_those_it_depends_on_whatever_the_order_they_are_written_in() -> None:
    axes = {"a": Axis(choices=(1,), when={"c": 1}), "b": Axis(choices=(1,)), "c": Axis(choices=(1,))}
    assert ordered(axes) == ordered(dict(reversed(axes.items()))) == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        ({}, "says no values"),
        ({"choices": [1], "range": [0, 1]}, "choices and range"),
        ({"range": [1, 1]}, "has to be below"),
        ({"log_range": [0, 1]}, "above 0"),
        ({"choices": [1], "points": 2}, "for ranges"),
        ({"int_range": [1, 4], "step": 0.5}, "whole number"),
    ],
)
def test_an_axis_that_makes_no_sense_is_refused(axis: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Axis.model_validate(axis)


def test_conditions_are_about_axes_and_not_about_each_other() -> None:
    with pytest.raises(UsageError, match=r"Did you mean 'optim\.lr'"):
        ordered({"optim.lr": Axis(choices=(1,)), "b": Axis(choices=(1,), when={"optim.lrr": 1})})
    with pytest.raises(UsageError, match="conditions of each other"):
        ordered({"a": Axis(choices=(1,), when={"b": 1}), "b": Axis(choices=(1,), when={"a": 1})})


def test_a_grid_of_fractions_needs_its_number_of_points() -> None:
    with pytest.raises(ValidationError, match="points = 5"):
        search("grid", {"optim.lr": {"range": [0, 1]}})


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        ({"choices": [0.1, float("nan")]}, "NaN, dates and times"),
        ({"choices": [{"a": [1, date(1979, 5, 27)]}]}, "NaN, dates and times"),
        ({"choices": []}, "at least 1"),
        ({"choices": list(range(10_001))}, "at most 10000"),
        ({"range": [0.0, float("inf")]}, "has to be below"),
        ({"range": [-1.7e308, 1.7e308]}, "too wide"),
        ({"log_range": [5e-324, 1e308]}, "too wide"),
        ({"range": [0.0, 1.0], "step": 5.0}, "too long"),
        ({"range": [0.0, 1.0], "step": 1e-320}, "too short"),
        ({"range": [0.0, 1.0], "step": float("inf")}, "too long"),
        ({"int_range": [0, 10], "step": float("inf")}, "whole number"),
        ({"int_range": [0, 10**400]}, "less than or equal"),
        ({"log_int_range": [1, 2**53 + 1]}, "less than or equal"),
        ({"range": [0.0, 1.0], "points": 10**9}, "less than or equal"),
    ],
)
def test_what_can_not_be_drawn_or_written_down_is_no_axis(axis: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Axis.model_validate(axis)


@pytest.mark.parametrize(
    "axes",
    [
        {"seed": {"int_range": [1, 10**12]}},
        {"seed": {"range": [0.0, 1.0], "step": 1e-12}},
        {"a": {"int_range": [1, 1001]}, "b": {"int_range": [1, 1000]}},
    ],
)
def test_a_grid_that_nobody_can_train_is_refused_before_it_is_made(axes: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="1,000,000"):
        search("grid", axes)


def test_a_large_grid_begins_with_as_many_trials_as_are_asked_for() -> None:
    axes = {key: {"int_range": [1, 1000]} for key in "abc"}
    assert search("grid", axes, limits={"trials": 7}).planned == 7
    assert list(islice(grid({k: Axis.model_validate(a) for k, a in axes.items()}), 2))[1] == {"a": 1, "b": 1, "c": 2}


def test_a_grid_with_conditions_is_counted_as_it_is_walked() -> None:
    axes = {k: a for k, a in AXES.items() if k.startswith(("scheduler", "ckpt"))}
    axes["dup"] = Axis(choices=(1, 1, True, 1.0))
    assert points_of_grid(axes, 100) == len(list(grid(axes))) == 2 * 3
    assert points_of_grid(axes, 4) == 4


def test_halving_and_trials_have_their_limits() -> None:
    with pytest.raises(ValidationError, match="beyond step"):
        search("halving", halving={"min_steps": 10, "factor": 1000, "rungs": 12})
    with pytest.raises(ValidationError, match=r"say limits\.trials"):
        search("halving", halving={"min_steps": 1, "factor": 11, "rungs": 6})
    assert search("halving", halving={"min_steps": 1, "factor": 11, "rungs": 6}, limits={"trials": 9}).planned == 9


ONE: dict[str, object] = {"choices": [1, 2]}


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"optim": {"choices": [{"lr": 1}]}, "optim.lr": ONE}, "set the same key"),
        ({"optim.lr": ONE, ' "optim" . lr': ONE}, "set the same key"),
        ({"volume": ONE}, "volume can not be an axis: it is Slipway's own"),
        ({"retention.keep_last": ONE}, "retention can not be an axis"),
        ({"resume.dir": ONE}, "begin from the base weights"),
        ({"a..b": ONE}, "no dotted key"),
        ({"a": ONE, "b": {"choices": [1], "when": {"a": 3}}}, "'a' is 3, which never happens"),
        ({"a": ONE, "b": {"choices": [1], "when": {"a": []}}}, "no value of 'a', which never happens"),
        ({"a": {"range": [0, 1]}, "b": {"choices": [1], "when": {"a": [0.5, 2]}}}, "'a' is 2, which never"),
    ],
)
def test_axes_that_stand_in_each_others_way_are_named(axes: dict[str, object], words: str) -> None:
    with pytest.raises((UsageError, BadInputError), match=words):
        search("random", axes)
    with pytest.raises(UsageError, match="halving sets"):
        search("halving", {"max_steps.x": ONE})


def test_choices_that_only_python_calls_equal_are_told_apart() -> None:
    axes = {"x": Axis(choices=(1, True, 1.0, [1], [True])), "y": Axis(choices=("a",), when={"x": True})}
    assert [repr(p["x"]) for p in grid({"x": axes["x"]})] == ["1", "True", "1.0", "[1]", "[True]"]
    assert [("y" in p) for p in grid(axes)] == [False, True, False, False, False]
    assert [place_of(axes["x"].choices or (), p["x"]) for p in grid({"x": axes["x"]})] == [0, 1, 2, 3, 4]
    with pytest.raises(UsageError, match="never happens"):
        check_axes({"x": Axis(choices=(1, 2)), "y": Axis(choices=(3,), when={"x": True})}, not_these={})
    with pytest.raises(UsageError, match="never happens"):
        check_axes({"x": Axis(range=(0, 2)), "y": Axis(choices=(3,), when={"x": True})}, not_these={})
    check_axes({"x": Axis(choices=(1.0, 2)), "y": Axis(choices=(3,), when={"x": 1})}, not_these={})


@pytest.mark.parametrize("method", ["tpe", "pbt"])
def test_a_method_that_learns_knows_which_of_them_was_drawn(method: str) -> None:
    axes = {"x": Axis(choices=(False, 0, True, 1))}
    how = search(method, {k: a.model_dump() for k, a in axes.items()}, limits={"parallel": 8})
    for trial in range(20):
        near = mutate(how, {"x": 1}, 1, trial)["x"]
        if repr(near) in ("False", "0"):  # not a neighbour: drawn anew, as one value in ten is
            assert near is draw(how.axes, RandomDice(seeded(how, "mutate", 1, trial)))["x"]
    assert [_internal(how.axes["x"], value) for value in (False, 0, True, 1)] == [0, 1, 2, 3]
