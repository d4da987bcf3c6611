"""What counts of a run: its value."""

from typing import Any

import pytest

from tasks.sweeps.outcome import value_of
from tests.tasks.sweeps.conftest import search

DIVERGED = {
    1: {"step": 1, "loss": 2.0},
    2: {"step": 2, "loss": 3.0},
    3: {"step": 3, "loss": None, "not_finite": ["loss"]},
    4: {"step": 4},
}


@pytest.mark.parametrize(
    ("how", "until", "value"),
    [
        ({}, None, None),
        ({}, 2, 3.0),
        ({"take": "best"}, None, 2.0),
        ({"take": "best", "direction": "maximize"}, None, 3.0),
        ({"metric": "other"}, None, None),
    ],
)
def test_a_run_that_has_diverged_is_not_as_good_as_it_was(how: dict[str, Any], until: int | None, value: Any) -> None:
    assert value_of(search(**how), DIVERGED, until) == value


def test_what_is_no_number_is_no_value() -> None:
    curve = {1: {"step": 1, "loss": 2.0, "note": "x", "ok": True}}
    assert value_of(search(metric="note"), curve) is None
    assert value_of(search(metric="ok"), curve) is None
    assert value_of(search(), {**curve, 2: {"step": 2, "note": "no loss here"}}) == 2.0
