"""What is asked for when a sweep is asked for: space, method, metric, limits. Pure."""

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator

from blocks.clusters.job import Frozen
from tasks.runs.request import RUN_ID_LONGEST, RunRequest, hash_request
from tasks.sweeps.axes import MOST_POINTS, Axis, check_axes, points_of_grid

SWEEP_NAME_LONGEST = RUN_ID_LONGEST - 12
"""Leaves room for `-t0000-r1`."""

Method = Literal["grid", "random", "tpe", "halving", "pbt"]
_MOST_STEPS = 10**12


def _at(position: int) -> dict[str, Any]:
    return {"position": position}


class Limits(Frozen):
    """What a sweep may take."""

    trials: int | None = Field(
        default=None,
        ge=1,
        le=MOST_POINTS,
        title="Trials",
        description="How many trials. None: 20, and for a grid all of its points.",
        json_schema_extra=_at(0),
    )
    parallel: int = Field(
        default=2,
        ge=1,
        le=MOST_POINTS,
        title="At once",
        description="How many trials run at once.",
        json_schema_extra=_at(1),
    )
    gpu_hours: float | None = Field(
        default=None,
        gt=0,
        title="GPU hours",
        description="Once the trials have used so many, what runs is stopped and nothing new begins. None: no limit.",
        json_schema_extra=_at(2),
    )
    hours: float | None = Field(
        default=None,
        gt=0,
        title="Hours",
        description="So long after the sweep was planned, what runs is stopped. None: no limit.",
        json_schema_extra=_at(3),
    )


class Stop(Frozen):
    """When a trial, or the whole sweep, is not worth going on with."""

    target: float | None = Field(
        default=None,
        allow_inf_nan=False,
        title="Target",
        description="The sweep is over once a trial has completed with a metric as good as that. None: no target.",
        json_schema_extra=_at(0),
    )
    patience: int = Field(
        default=0,
        ge=0,
        title="Patience, trials",
        description="Nothing new begins after so many trials in a row that did not better the best. 0: never mind.",
        json_schema_extra=_at(1),
    )
    min_delta: float = Field(
        default=0,
        ge=0,
        allow_inf_nan=False,
        title="Smallest improvement",
        description="By how much the best has to be bettered for that to count.",
        json_schema_extra=_at(2),
    )
    diverged: bool = Field(
        default=True,
        title="Stop trials that diverged",
        description="A trial whose metric is NaN or infinite, or its loss three times in a row, is stopped.",
        json_schema_extra=_at(3),
    )
    median_after: int = Field(
        default=0,
        ge=0,
        title="Median rule from step",
        description="At that step, twice it, and so on: a trial that is worse than the median of those before it is "
        "stopped. 0: none is.",
        json_schema_extra=_at(4),
    )
    median_trials: int = Field(
        default=5,
        ge=2,
        title="Trials for a median",
        description="Before so many have come to a step, none is stopped there.",
        json_schema_extra=_at(5),
    )


class Failures(Frozen):
    """What becomes of a sweep when trials fail. It goes on in any case."""

    policy: Literal["skip", "replace"] = Field(
        default="skip",
        title="A failed trial is",
        description="skip: it counts as one of the trials. replace: another one is begun in its place.",
        json_schema_extra=_at(0),
    )
    replacements: int = Field(
        default=3, ge=0, title="Replaced at most", description="Further ones are skipped.", json_schema_extra=_at(1)
    )
    stop_after: int = Field(
        default=10,
        ge=1,
        title="Stop after",
        description="So many failed trials: nothing new begins.",
        json_schema_extra=_at(2),
    )


class Halving(Frozen):
    """Asynchronous successive halving: of the trials that came to the end of a rung, the best ones go on."""

    min_steps: int = Field(
        default=10, ge=1, le=_MOST_STEPS, title="First rung", description="Its last step.", json_schema_extra=_at(0)
    )
    factor: int = Field(
        default=3,
        ge=2,
        le=1000,
        title="Factor",
        description="One of so many goes on to the next rung, which has so many times the steps.",
        json_schema_extra=_at(1),
    )
    rungs: int = Field(
        default=3, ge=1, le=12, title="Rungs", description="How many there are.", json_schema_extra=_at(2)
    )

    def steps(self, rung: int) -> int:
        return int(self.min_steps * self.factor**rung)


class Pbt(Frozen):
    """Population-based training: at each interval the worst trials go on from a checkpoint of one of the best."""

    population: int = Field(
        default=8,
        ge=2,
        le=10_000,
        title="Population",
        description="How many trials train side by side.",
        json_schema_extra=_at(0),
    )
    interval: int = Field(
        default=10,
        ge=1,
        le=_MOST_STEPS,
        title="Interval, steps",
        description="Trials are compared after every so many steps.",
        json_schema_extra=_at(1),
    )
    intervals: int = Field(
        default=4,
        ge=2,
        le=10_000,
        title="Intervals",
        description="How many, to the end of the training.",
        json_schema_extra=_at(2),
    )
    share: float = Field(
        default=0.25,
        gt=0,
        le=0.5,
        title="Share",
        description="The share of the population that counts as worst, and as best.",
        json_schema_extra=_at(3),
    )

    @property
    def max_steps(self) -> int:
        return self.interval * self.intervals

    @property
    def edge(self) -> int:
        """How many trials are worst, and how many best."""
        return max(1, int(self.population * self.share))


Axes = Annotated[dict[str, Axis], WithJsonSchema({"type": "object", "title": "Axes"})]


class Search(Frozen):
    """How to look for the best trial."""

    model_config = ConfigDict(title="Search")

    method: Method = Field(
        default="random",
        title="Method",
        description="grid: every point. random: drawn. tpe: drawn near what was good (Optuna). halving: many short "
        "trials, of which the best are forked to go on. pbt: a population whose worst are forked from its best.",
        json_schema_extra=_at(0),
    )
    axes: Axes = Field(
        description="What each key of the config may be, by dotted key, such as "
        '{"optim.lr": {"log_range": [0.0001, 0.01]}, "data.batch_size": {"choices": [4, 8]}}.',
        json_schema_extra=_at(1),
    )
    metric: str = Field(
        default="loss",
        min_length=1,
        title="Metric",
        description="What the trainer reports in its metrics and trials are compared by, such as val_loss.",
        json_schema_extra=_at(2),
    )
    direction: Literal["minimize", "maximize"] = Field(
        default="minimize",
        title="Direction",
        description="minimize: the lowest value is the best one. maximize: the highest.",
        json_schema_extra=_at(3),
    )
    take: Literal["last", "best"] = Field(
        default="last",
        title="Which value",
        description="Of all the values of a trial: its last, or its best.",
        json_schema_extra=_at(4),
    )
    seed: int = Field(
        default=0,
        ge=0,
        title="Seed",
        description="The same seed and results draw the same trials.",
        json_schema_extra=_at(5),
    )
    limits: Limits = Field(default=Limits(), title="Limits", json_schema_extra=_at(6))
    stop: Stop = Field(default=Stop(), title="Stop rules", json_schema_extra=_at(7))
    failures: Failures = Field(default=Failures(), title="Failed trials", json_schema_extra=_at(8))
    halving: Halving = Field(default=Halving(), title="Of halving", json_schema_extra=_at(9))
    pbt: Pbt = Field(default=Pbt(), title="Of pbt", json_schema_extra=_at(10))
    steps_key: str = Field(
        default="max_steps",
        min_length=1,
        title="Key of the last step",
        description="Of halving and pbt: the key of the config that says where training ends.",
        json_schema_extra=_at(11),
    )

    @model_validator(mode="after")
    def _fits(self) -> "Search":
        if not self.axes:
            raise ValueError("a sweep needs at least one axis")
        not_these = {"resume": "trials begin from the base weights"}
        if self.method in ("halving", "pbt"):
            not_these[self.steps_key] = f"{self.method} sets {self.steps_key} itself"
        check_axes(self.axes, not_these=not_these)
        if self.method == "grid":
            for key, axis in self.axes.items():
                try:
                    axis.values()
                except ValueError as error:
                    raise ValueError(f"the axis {key!r} {error}") from None
        if self.method == "halving" and self.halving.steps(self.halving.rungs - 1) > _MOST_STEPS:
            raise ValueError(
                f"the last rung of halving ends beyond step {_MOST_STEPS:,}: fewer rungs, or a lower factor"
            )
        if self.planned > MOST_POINTS:
            raise ValueError(
                f"that would be more than {MOST_POINTS:,} trials: say limits.trials, or make the search smaller"
            )
        if self.method == "pbt" and self.limits.parallel < self.pbt.population:
            raise ValueError(
                f"a population of {self.pbt.population} trains at once, and limits.parallel is {self.limits.parallel}"
            )
        for rule in ("patience", "median_after"):
            if self.method in ("halving", "pbt") and getattr(self.stop, rule):
                raise ValueError(
                    f"stop.{rule} is for grid, random and tpe: {self.method} ends what is not good by itself"
                )
        if self.stop.min_delta and not self.stop.patience:
            raise ValueError("stop.min_delta says what counts for stop.patience, which is not set")
        return self

    @property
    def sign(self) -> int:
        """What a value is multiplied by so that less is better."""
        return 1 if self.direction == "minimize" else -1

    @cached_property
    def planned(self) -> int:
        """How many trials there are to be, failed ones that are replaced aside."""
        match self.method:
            case "pbt":
                return self.pbt.population
            case "grid":
                return points_of_grid(self.axes, self.limits.trials or MOST_POINTS + 1)
            case "halving":
                return self.limits.trials or self.halving.factor**self.halving.rungs
        return self.limits.trials or 20

    def used(self) -> dict[str, Any]:
        """What counts of it: the settings of methods that were not asked for do not."""
        others = {"halving", "pbt"} - {self.method}
        return self.model_dump(mode="json", exclude=others, exclude_defaults=True) | {"method": self.method}


class SweepRequest(Frozen):
    """One sweep as it was asked for.

    Args:
        sweep: its name; trials are called after it.
        base: the run that every trial is a variation of; its own name is the sweep's.
    """

    sweep: str
    search: Search
    base: RunRequest

    @property
    def volume(self) -> str:
        return self.base.volume

    def asked(self) -> dict[str, Any]:
        """What makes two requests under one name the same request."""
        return {"search": self.search.used(), "base": self.base.asked()}

    def request_hash(self) -> str:
        return hash_request(self.asked())
