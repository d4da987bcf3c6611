"""The axes of a search space: what a key of the config may be, and when it counts. Pure."""

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Protocol

from pydantic import Field, model_validator

from blocks.clusters.errors import UsageError
from blocks.clusters.job import Frozen
from tasks.pod.trainers.schema import nearest

_KINDS = ("choices", "range", "log_range", "int_range", "log_int_range")

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

    choices: tuple[Any, ...] | None = Field(default=None, min_length=1)
    range: tuple[float, float] | None = None
    log_range: tuple[float, float] | None = None
    int_range: tuple[int, int] | None = None
    log_int_range: tuple[int, int] | None = None
    step: float | None = Field(default=None, gt=0)
    points: int | None = Field(default=None, ge=1)
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
            return self
        low, high = self.ends
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"goes from {low:g} to {high:g}: the lower end has to be below the upper one")
        if self.log and low <= 0:
            raise ValueError(f"is logarithmic and begins at {low:g}: it has to begin above 0")
        if self.step and (self.log or (self.whole and self.step != int(self.step))):
            raise ValueError("step is for range, and a whole number for int_range")
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
        """What a grid takes of it.

        Raises:
            ValueError: a range of fractions does not say how many points.
        """
        if self.choices is not None:
            return list(self.choices)
        low, high = self.ends
        if self.points is None:
            if self.step is None and not (self.whole and not self.log):
                raise ValueError("is a range: a grid needs its number of points, such as points = 5")
            step = self.step or 1
            found = [low + step * n for n in range(int((high - low) / step + 1e-9) + 1)]
        elif self.points == 1:
            found = [low]
        elif self.log:
            found = [low * (high / low) ** (n / (self.points - 1)) for n in range(self.points)]
        else:
            found = [low + (high - low) * n / (self.points - 1) for n in range(self.points)]
        return (
            list(dict.fromkeys(round(value) for value in found)) if self.whole else [float(f"{v:.12g}") for v in found]
        )

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
    names = ordered(axes)
    seen: set[str] = set()
    for values in product(*(axes[name].values() for name in names)):
        point: Point = {}
        for name, value in zip(names, values, strict=True):
            if counts(axes[name], point):
                point[name] = value
        if (mark := repr(sorted(point.items()))) not in seen:
            seen.add(mark)
            yield point


def counts(axis: Axis, point: Point) -> bool:
    """Whether the condition of an axis is met by the axes before it."""
    for other, wanted in axis.when.items():
        among = wanted if isinstance(wanted, list | tuple) else [wanted]
        if other not in point or point[other] not in among:
            return False
    return True


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
