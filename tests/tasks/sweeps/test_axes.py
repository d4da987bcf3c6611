"""The search space: what is drawn, what a grid has, what can not be."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from blocks.clusters.errors import UsageError
from tasks.sweeps.axes import Axis, draw, grid, ordered
from tasks.sweeps.proposals import RandomDice, mutate
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
