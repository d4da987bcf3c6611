"""Which trial comes next: grid, random, or Optuna's TPE asked and told. What was proposed is read from the log, never
drawn again; what is drawn depends on the seed and the log alone."""

import math
import random
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from tasks.runs.alike import place_of
from tasks.sweeps.axes import Axis, Point, counts, draw, grid, ordered
from tasks.sweeps.log import End, Entry, Start
from tasks.sweeps.spec import Search

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial

_STARTUP = 10
"""Trials that TPE draws at random before it learns."""


class Proposals(Protocol):
    def told(self, entry: Entry) -> None:
        """An entry was written down, or read again."""
        ...

    def next(self, trial: int) -> Point | None:
        """The point of a trial, counted from 1; None if there is none left. Its start is to be told next."""
        ...


def proposals(search: Search) -> Proposals:
    """From the beginning of a log."""
    match search.method:
        case "grid":
            return _Grid(search)
        case "tpe":
            return _Tpe(search)
    return _Random(search)


def seeded(search: Search, *about: object) -> random.Random:
    """A generator that gives the same for the same seed and subject."""
    return random.Random("/".join(map(str, (search.seed, *about))))  # noqa: S311 - a search, no secret


class _Grid:
    """Points in order; the place of a failed trial that is replaced is tried again."""

    def __init__(self, search: Search) -> None:
        self._points = list(islice(grid(search.axes), search.planned))
        self._begun = 0
        self._again: list[Point] = []
        self._replace = search.failures.policy == "replace"
        self._starts: dict[str, Point] = {}

    def told(self, entry: Entry) -> None:
        if isinstance(entry, Start):
            self._starts[entry.run] = entry.point
            if self._begun < len(self._points):
                self._begun += 1
            elif self._again:
                self._again.pop(0)
        elif isinstance(entry, End) and entry.state == "failed" and self._replace:
            self._again.append(self._starts[entry.run])

    def next(self, trial: int) -> Point | None:
        if self._begun < len(self._points):
            return self._points[self._begun]
        return self._again[0] if self._again else None


class _Random:
    """Each trial's point depends on the seed and its number alone."""

    def __init__(self, search: Search) -> None:
        self._search = search

    def told(self, entry: Entry) -> None:
        pass

    def next(self, trial: int) -> Point | None:
        return draw(self._search.axes, RandomDice(seeded(self._search, trial)))


class RandomDice:
    def __init__(self, generator: random.Random) -> None:
        self._random = generator

    def choose(self, key: str, count: int) -> int:
        return self._random.randrange(count)

    def real(self, key: str, low: float, high: float, *, log: bool, step: float | None) -> float:
        if step:
            return float(f"{low + step * self._random.randrange(int((high - low) / step + 1e-9) + 1):.12g}")
        if log:
            return min(high, max(low, low * math.pow(high / low, self._random.random())))
        return self._random.uniform(low, high)

    def whole(self, key: str, low: int, high: int, *, log: bool, step: int) -> int:
        if log:
            return min(high, max(low, round(low * math.pow(high / low, self._random.random()))))
        return self._random.randrange(low, high + 1, step)


class _Tpe:
    """Optuna's tree-structured Parzen estimator. Its study is built from the log; a sampler of its own for each trial
    makes that trial's draw depend on nothing else."""

    def __init__(self, search: Search) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._search = search
        self._study = optuna.create_study(direction=search.direction)
        self._numbers: dict[str, int] = {}
        self._asked: Point | None = None

    def told(self, entry: Entry) -> None:
        from optuna.trial import TrialState, create_trial

        if isinstance(entry, Start):
            if self._asked != entry.point:
                axes = self._search.axes
                self._study.add_trial(
                    create_trial(
                        state=TrialState.RUNNING,
                        params={key: _internal(axes[key], value) for key, value in entry.point.items()},
                        distributions={key: _distribution(axes[key]) for key in entry.point},
                    )
                )
            self._asked = None
            self._numbers[entry.run] = len(self._numbers)
        elif isinstance(entry, End):
            number = self._numbers[entry.run]
            if entry.state != "completed" or entry.value is None:
                # one that was stopped for what it was is a bad one, of which Optuna need not know how bad
                bad = entry.state == "stopped" and entry.cause in ("diverged", "median")
                self._study.tell(number, state=TrialState.PRUNED if bad else TrialState.FAIL)
            else:
                self._study.tell(number, entry.value)

    def next(self, trial: int) -> Point | None:
        from optuna.samplers import TPESampler

        if self._asked is None:
            seed = seeded(self._search, trial).randrange(2**32)
            self._study.sampler = TPESampler(seed=seed, n_startup_trials=_STARTUP, constant_liar=True)
            self._asked = draw(self._search.axes, _OptunaDice(self._study.ask()))
        return self._asked


class _OptunaDice:
    def __init__(self, trial: "Trial") -> None:
        self._trial = trial

    def choose(self, key: str, count: int) -> int:
        return int(self._trial.suggest_categorical(key, range(count)))

    def real(self, key: str, low: float, high: float, *, log: bool, step: float | None) -> float:
        return float(self._trial.suggest_float(key, low, high, log=log, step=step))

    def whole(self, key: str, low: int, high: int, *, log: bool, step: int) -> int:
        return int(self._trial.suggest_int(key, low, high, log=log, step=step))


def _internal(axis: Axis, value: Any) -> Any:
    """A choice is known to Optuna by its place: choices may be lists and tables."""
    return place_of(axis.choices, value) if axis.choices is not None else value


def _distribution(axis: Axis) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if axis.choices is not None:
        return CategoricalDistribution(range(len(axis.choices)))
    low, high = axis.ends
    if axis.whole:
        return IntDistribution(int(low), int(high), log=axis.log, step=int(axis.step or 1))
    return FloatDistribution(low, high, log=axis.log, step=axis.step)


def mutate(search: Search, point: Point, interval: int, trial: int) -> Point:
    """A point near another one, inside the space; `mutate = false` axes stay as they are.

    Numbers are multiplied by 0.8 or 1.25, choices move to a neighbour, and one value in ten is drawn anew.
    """
    generator = seeded(search, "mutate", interval, trial)
    fresh = draw(search.axes, RandomDice(generator))
    changed: Point = {}
    for key in ordered(search.axes):
        axis = search.axes[key]
        if not counts(axis, changed):
            continue
        if not axis.mutate and key in point:
            changed[key] = point[key]
        elif key not in point or generator.random() < 0.1:
            changed[key] = fresh.get(key, axis.probes()[0])
        else:
            changed[key] = _near(axis, point[key], generator)
    return changed


def _near(axis: Axis, value: Any, generator: random.Random) -> Any:
    if axis.choices is not None:
        neighbour = place_of(axis.choices, value) + generator.choice((-1, 1))
        return axis.choices[min(len(axis.choices) - 1, max(0, neighbour))]
    low, high = axis.ends
    moved = value * generator.choice((0.8, 1.25))
    if axis.step:
        moved = low + axis.step * (round((value - low) / axis.step) + generator.choice((-1, 1)))
    elif axis.whole and round(moved) == value:
        moved = value + generator.choice((-1, 1))
    moved = min(high, max(low, moved))
    return round(moved) if axis.whole else float(moved)
