"""What a sweep decided, as it is written down: entries of its log, and what they come to. Pure.

The log is all there is: whoever reads it again knows what the one before knew, and draws the same next.
"""

import math
from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from blocks.clusters.errors import SlipwayError
from tasks.runs.records import Record
from tasks.sweeps.axes import Point


class Origin(Record):
    """The completed checkpoint that a fork continues from; `path` is relative to the volume."""

    run: str
    path: str
    step: int
    fingerprint: str


class Start(Record):
    """A run is to be launched.

    Args:
        trial: which of the sweep's trials it belongs to, from 1.
        stage: how often that trial was forked: its rung, or the interval at which it was.
        point: values by dotted key, all that the trial was drawn or changed to.
        max_steps: where it ends; None to leave that to the config.
        replaces: the run of the same trial that is stopped for it.
        why: in words.
    """

    kind: Literal["start"] = "start"
    run: str
    trial: int
    stage: int = 0
    point: Point
    max_steps: int | None = None
    origin: Origin | None = None
    replaces: str | None = None
    why: str = ""


class Stop(Record):
    """A run that trains is to be stopped: it is not worth going on with."""

    kind: Literal["stop"] = "stop"
    run: str
    cause: str
    reason: str


class End(Record):
    """A run is over, and this is what counts of it.

    Args:
        state: "completed", "failed" (whatever it was that failed), or "stopped".
        value: of the metric; None where the run has none.
        step: the last one trained.
        newest: its newest completed checkpoint.
        gpu_hours, hours: of all its attempts.
        at: its values at the steps at which the median rule compares.
    """

    kind: Literal["end"] = "end"
    run: str
    state: Literal["completed", "failed", "stopped"]
    cause: str = ""
    reason: str = ""
    value: float | None = None
    step: int = 0
    newest: Origin | None = None
    gpu_hours: float = 0
    hours: float = 0
    at: dict[int, float] = Field(default_factory=dict)


class Interval(Record):
    """The population was compared at an interval; scores by trial, None for one that has none."""

    kind: Literal["interval"] = "interval"
    number: int
    scores: dict[int, float | None]


class Closing(Record):
    """Nothing new begins; with `stop`, what runs is stopped."""

    kind: Literal["closing"] = "closing"
    reason: str
    stop: bool = False


class Over(Record):
    """The sweep is over."""

    kind: Literal["over"] = "over"
    reason: str


Entry = Annotated[Start | Stop | End | Interval | Closing | Over, Field(discriminator="kind")]
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)


def read_entry(record: dict[str, Any]) -> Entry:
    """Raises: SlipwayError: it is not an entry that was written."""
    try:
        return _ENTRY.validate_python(record)
    except ValidationError as error:
        raise SlipwayError(
            f"An entry in the log of a sweep is damaged: {error.errors()[0]['msg']}.",
            "Restore the sweep's log from a backup of the volume.",
        ) from None


@dataclass
class Node:
    """A run of the sweep.

    Args:
        stop: why it was to be stopped.
        replaced_by: the fork that took its trial over.
    """

    start: Start
    end: End | None = None
    stop: Stop | None = None
    replaced_by: str | None = None

    @property
    def value(self) -> float | None:
        return self.end.value if self.end else None


@dataclass
class State:
    """Where a sweep stands after the entries so far.

    Args:
        sign: 1 where less is better, -1 where more is.
        turns: how many turns its log has.
        nodes: runs, in the order in which they were begun.
        failed: how many runs have failed.
        failed_trials: how many of those were no forks.
        best: the completed run with the best value.
        in_vain: how many trials in a row did not better the best by `min_delta`.
    """

    sign: int = 1
    min_delta: float = 0
    turns: int = 0
    nodes: dict[str, Node] = field(default_factory=dict)
    intervals: dict[int, Interval] = field(default_factory=dict)
    closing: Closing | None = None
    over: Over | None = None
    failed: int = 0
    failed_trials: int = 0
    best: Node | None = None
    in_vain: int = 0
    _live: dict[str, Node] = field(default_factory=dict)
    _of_trial: dict[int, list[Node]] = field(default_factory=dict)
    _rungs: dict[int, list[tuple[float, int, str]]] = field(default_factory=dict)
    _at: dict[int, list[float]] = field(default_factory=dict)
    _to_better: float = math.inf

    def apply(self, entry: Entry) -> None:
        """Raises: SlipwayError: it speaks of a run that no entry before it began."""
        about = entry.replaces if isinstance(entry, Start) else getattr(entry, "run", None)
        if about is not None and about not in self.nodes:
            raise SlipwayError(
                f"The log of a sweep is damaged: it speaks of run {about!r}, and nothing in it begins that.",
                "Restore the sweep's log from a backup of the volume.",
            )
        match entry:
            case Start():
                node = Node(entry)
                self.nodes[entry.run] = self._live[entry.run] = node
                self._of_trial.setdefault(entry.trial, []).append(node)
                if entry.replaces:
                    self.nodes[entry.replaces].replaced_by = entry.run
            case Stop():
                self.nodes[entry.run].stop = entry
            case End():
                self._end(self.nodes[entry.run], entry)
            case Interval():
                self.intervals[entry.number] = entry
            case Closing():
                self.closing = entry
            case Over():
                self.over = entry

    def _end(self, node: Node, end: End) -> None:
        node.end = end
        self._live.pop(end.run, None)
        for step, value in end.at.items():
            insort(self._at.setdefault(step, []), self.sign * value)
        if end.state == "failed":
            self.failed += 1
            self.failed_trials += not node.start.stage
            return
        self.in_vain += 1
        if end.state != "completed" or end.value is None:
            return
        value = self.sign * end.value
        insort(self._rungs.setdefault(node.start.stage, []), (value, node.start.trial, node.start.run))
        if self.best is None or self.best.value is None or value < self.sign * self.best.value:
            self.best = node
        if value < self._to_better - self.min_delta:
            self._to_better, self.in_vain = value, 0

    @property
    def live(self) -> list[Node]:
        """Begun, and not over."""
        return list(self._live.values())

    @property
    def to_stop(self) -> list[Node]:
        """Live, and no longer wanted."""
        all_of_them = self.closing is not None and self.closing.stop
        return [node for node in self.live if node.replaced_by or node.stop or all_of_them]

    @property
    def trials(self) -> int:
        """How many trials were begun."""
        return len(self._of_trial)

    @property
    def gpu_hours(self) -> float:
        """Of the runs that are over."""
        return sum(node.end.gpu_hours for node in self.nodes.values() if node.end)

    def rung(self, stage: int) -> list[str]:
        """The runs of a stage that completed, the best first."""
        return [run for _, _, run in self._rungs.get(stage, ())]

    def median(self, step: int, least: int) -> float | None:
        """The median of the values at a step of runs that are over; None if fewer than `least` have one."""
        found = self._at.get(step, [])
        return self.sign * median(found) if len(found) >= least else None

    def of_trial(self, trial: int) -> list[Node]:
        return self._of_trial.get(trial, [])

    def newest(self) -> list[Node]:
        """The newest run of each trial, by trial."""
        return [self._of_trial[trial][-1] for trial in sorted(self._of_trial)]

    def ranked(self, sign: int) -> list[Node]:
        """Runs that have a value, the best first; of equal ones the earlier trial.

        Args:
            sign: 1 where less is better, -1 where more is.
        """
        found = [n for n in self.nodes.values() if n.end and n.end.state == "completed" and n.value is not None]
        return sorted(found, key=lambda node: (sign * (node.value or 0), node.start.trial, -node.start.stage))


def replay(turns: Iterable[list[Entry]], state: State) -> State:
    """What the turns of a log come to.

    Args:
        state: an empty one.
    """
    for turn in turns:
        for entry in turn:
            state.apply(entry)
        state.turns += 1
    return state
