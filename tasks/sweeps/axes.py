"""The axes of a search space: what a key of the config may be, and when it counts. Pure."""

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, Protocol

from pydantic import Field, model_validator

from blocks.clusters.errors import UsageError
from blocks.clusters.job import Frozen
from tasks.pod.trainers.schema import OURS, nearest
from tasks.pod.trainers.toml_config import split_key
from tasks.runs.alike import alike

MOST_POINTS = 1_000_000
"""Of a grid, and trials of any sweep."""
_MOST_CHOICES = 10_000
_EXACT = 2**53
_KINDS = ("choices", "range", "log_range", "int_range", "log_int_range")

Whole = Annotated[int, Field(ge=-_EXACT, le=_EXACT)]

Point = dict[str, Any]
"""A point of the space: values by dotted key of the config."""


class Axis(Frozen):
    """What one key of the config may be: exactly one of `choices` and the ranges, whose ends are included.

    Args:
        choices: values of any kind.
        range, int_range: numbers, all as likely.
        log_range, log_int_range: numbers above zero, all orders of magnitude as likely.
        step: distance between values of `range` and `int_range`, counted from the lower end.
        points: how many values of a range a grid has; whole numbers without it: all of them.
        when: other axes and the value (or the list of values) that they must have for this one to count.
        mutate: whether `pbt` may change it when it forks a trial.
    """

    choices: tuple[Any, ...] | None = Field(default=None, min_length=1, max_length=_MOST_CHOICES)
    range: tuple[float, float] | None = None
    log_range: tuple[float, float] | None = None
    int_range: tuple[Whole, Whole] | None = None
    log_int_range: tuple[Whole, Whole] | None = None
    step: float | None = Field(default=None, gt=0)
    points: int | None = Field(default=None, ge=1, le=MOST_POINTS)
    when: dict[str, Any] = Field(default_factory=dict)
    mutate: bool = True

    @model_validator(mode="after")
    def _makes_sense(self) -> "Axis":
        given = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            said = f"has {' and '.join(given)}" if given else "says no values"
            raise ValueError(f"{said}: give it exactly one of {', '.join(_KINDS)}")
        if self.choices is not None:
            if self.step or self.points:
                raise ValueError("has choices: step and points are for ranges")
            if odd := next((choice for choice in self.choices if not _is_plain(choice)), None):
                raise ValueError(f"has the choice {odd}: NaN, dates and times are none; write dates in quotes")
            return self
        low, high = self.ends
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"goes from {low:g} to {high:g}: the lower end has to be below the upper one")
        if self.log and low <= 0:
            raise ValueError(f"is logarithmic and begins at {low:g}: it has to begin above 0")
        if not math.isfinite(high / low if self.log else high - low):
            raise ValueError(f"goes from {low:g} to {high:g}, which is too wide to be drawn from")
        if self.step and (self.log or (self.whole and not self.step.is_integer())):
            raise ValueError("step is for range, and a whole number for int_range")
        if self.step and not self.step <= high - low <= self.step * _EXACT:
            raise ValueError(
                f"goes from {low:g} to {high:g}: a step of {self.step:g} is too long for that, or too short"
            )
        return self

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of a range."""
        found = self.range or self.log_range or self.int_range or self.log_int_range
        assert found is not None
        return found

    @property
    def log(self) -> bool:
        return self.log_range is not None or self.log_int_range is not None

    @property
    def whole(self) -> bool:
        return self.int_range is not None or self.log_int_range is not None

    def values(self) -> list[Any]:
        """What a grid takes of it, each value once.

        Raises:
            ValueError: a range of fractions does not say how many points; there are too many.
        """
        if self.choices is not None:
            return list({repr(choice): choice for choice in self.choices}.values())
        low, high = self.ends
        if self.points is None:
            if self.step is None and not (self.whole and not self.log):
                raise ValueError("is a range: a grid needs its number of points, such as points = 5")
            step = self.step or 1
            count = int((high - low) / step + 1e-9) + 1
            if count > MOST_POINTS:
                raise ValueError(f"has {count:,} values, and a grid {MOST_POINTS:,} at most: say points, such as 5")
            found = [low + step * n for n in range(count)]
        elif self.points == 1:
            found = [low]
        elif self.log:
            found = [low * (high / low) ** (n / (self.points - 1)) for n in range(self.points)]
        else:
            found = [low + (high - low) * n / (self.points - 1) for n in range(self.points)]
        return list(dict.fromkeys(round(value) if self.whole else float(f"{value:.12g}") for value in found))

    def can_be(self, value: Any) -> bool:
        """Whether it has this value, or passes it."""
        if self.choices is not None:
            return any(alike(choice, value) for choice in self.choices)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and self.ends[0] <= value <= self.ends[1]

    def probes(self) -> list[Any]:
        """Values that show whether the trainer takes this axis at all: every choice, or both ends."""
        if self.choices is not None:
            return list(self.choices)
        return [int(end) if self.whole else float(end) for end in self.ends]


class Dice(Protocol):
    """What values are drawn with: a random generator, or a sampler that learns."""

    def choose(self, key: str, count: int) -> int: ...

    def real(self, key: str, low: float, high: float, *, log: bool, step: float | None) -> float: ...

    def whole(self, key: str, low: int, high: int, *, log: bool, step: int) -> int: ...


def draw(axes: Mapping[str, Axis], dice: Dice) -> Point:
    """One point of the space; axes whose condition is not met are left out."""
    point: Point = {}
    for key in ordered(axes):
        axis = axes[key]
        if not counts(axis, point):
            continue
        if axis.choices is not None:
            point[key] = axis.choices[dice.choose(key, len(axis.choices))]
        elif axis.whole:
            low, high = axis.ends
            point[key] = dice.whole(key, int(low), int(high), log=axis.log, step=int(axis.step or 1))
        else:
            point[key] = dice.real(key, *axis.ends, log=axis.log, step=axis.step)
    return point


def grid(axes: Mapping[str, Axis]) -> Iterator[Point]:
    """Every point of the grid, once; the last axis changes fastest."""
    values = {name: axes[name].values() for name in ordered(axes)}
    yield from _below({}, list(values.items()), axes)


def _below(point: Point, left: list[tuple[str, list[Any]]], axes: Mapping[str, Axis]) -> Iterator[Point]:
    if not left:
        yield point
        return
    (name, values), left = left[0], left[1:]
    if not counts(axes[name], point):
        yield from _below(point, left, axes)
        return
    for value in values:
        yield from _below({**point, name: value}, left, axes)


def points_of_grid(axes: Mapping[str, Axis], most: int) -> int:
    """How many points a grid has; `most` if there are more."""
    if any(axis.when for axis in axes.values()):
        return sum(1 for _ in islice(grid(axes), most))
    return min(most, math.prod(len(axis.values()) for axis in axes.values()))


def counts(axis: Axis, point: Point) -> bool:
    """Whether the condition of an axis is met by the axes before it."""
    return all(
        other in point and any(alike(point[other], value) for value in _among(wanted))
        for other, wanted in axis.when.items()
    )


def _among(wanted: Any) -> list[Any]:
    return list(wanted) if isinstance(wanted, list | tuple) else [wanted]


def ordered(axes: Mapping[str, Axis]) -> list[str]:
    """The axes' names, each after those that its condition is about; else by name: JSON keeps no order.

    Raises:
        UsageError: a condition is about something that is no axis, or about itself in a circle.
    """
    found: list[str] = []

    def add(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise UsageError(f"The axes {' and '.join(path)} are conditions of each other.", "Break the circle.")
        for other in sorted(axes[name].when):
            if other not in axes:
                near = nearest(other, axes)
                hint = f"Did you mean {near!r}?" if near else f"Axes are: {', '.join(sorted(axes))}."
                raise UsageError(f"The axis {name!r} counts when {other!r} is so, and that is no axis.", hint)
            if other not in found:
                add(other, (*path, name))
        if name not in found:
            found.append(name)

    for name in sorted(axes):
        add(name, ())
    return found


def check_axes(axes: Mapping[str, Axis], *, not_these: Mapping[str, str]) -> None:
    """Raises: UsageError: a key is no dotted key, is Slipway's own, or lies within another axis' or one of `not_these`;
    conditions go in a circle, or can never be met.

    Args:
        not_these: keys that are no axes → why.
    """
    paths: dict[tuple[str, ...], str] = {}
    for name in ordered(axes):
        path = tuple(split_key(name))
        if path[0] in OURS:
            raise UsageError(f"{path[0]} can not be an axis: it is Slipway's own, not the trainer's.", "Remove it.")
        for other, why in not_these.items():
            if _overlap(path, tuple(split_key(other))):
                raise UsageError(f"{name} can not be an axis: {why}.", "Remove it.")
        if clash := next((there for at, there in paths.items() if _overlap(path, at)), None):
            raise UsageError(f"The axes {clash!r} and {name!r} set the same key.", "Remove one of them.")
        paths[path] = name
        for other, wanted in axes[name].when.items():
            if (never := [value for value in _among(wanted) if not axes[other].can_be(value)]) or not _among(wanted):
                what = f"when {other!r} is {never[0]!r}" if never else f"for no value of {other!r}"
                raise UsageError(f"The axis {name!r} counts {what}, which never happens.", "Mend its when.")


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two keys are the same, or one lies within the other."""
    return one[: len(other)] == other[: len(one)]


def _is_plain(value: Any) -> bool:
    """Whether a value comes back the same from JSON, and is equal to itself."""
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or (isinstance(value, str | int | float) and value == value)
