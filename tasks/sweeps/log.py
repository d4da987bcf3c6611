"""What a sweep decided, as it is written down: entries of its log, and what they come to. Pure.

The log is all there is: whoever reads it again knows what the one before knew, and draws the same next.
"""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field
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


class End(Record):
    """A run is over, and this is what counts of it.

    Args:
        state: "completed", "failed" (whatever it was that failed), or "stopped".
        value: of the metric; None where the run has none.
        step: the last one trained.
        newest: its newest completed checkpoint.
        gpu_hours, hours: of all its attempts.
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


Entry = Annotated[Start | End | Interval | Closing | Over, Field(discriminator="kind")]
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
        replaced_by: the fork that took its trial over.
    """

    start: Start
    end: End | None = None
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
    """

    sign: int = 1
    turns: int = 0
    nodes: dict[str, Node] = field(default_factory=dict)
    intervals: dict[int, Interval] = field(default_factory=dict)
    closing: Closing | None = None
    over: Over | None = None
    failed: int = 0
    failed_trials: int = 0
    _live: dict[str, Node] = field(default_factory=dict)
    _of_trial: dict[int, list[Node]] = field(default_factory=dict)
    _rungs: dict[int, list[tuple[float, int, str]]] = field(default_factory=dict)

    def apply(self, entry: Entry) -> None:
        match entry:
            case Start():
                node = Node(entry)
                self.nodes[entry.run] = self._live[entry.run] = node
                self._of_trial.setdefault(entry.trial, []).append(node)
                if entry.replaces:
                    self.nodes[entry.replaces].replaced_by = entry.run
            case End():
                node = self.nodes[entry.run]
                node.end = entry
                self._live.pop(entry.run, None)
                if entry.state == "completed" and entry.value is not None:
                    start = node.start
                    insort(self._rungs.setdefault(start.stage, []), (self.sign * entry.value, start.trial, start.run))
                if entry.state == "failed":
                    self.failed += 1
                    self.failed_trials += not node.start.stage
            case Interval():
                self.intervals[entry.number] = entry
            case Closing():
                self.closing = entry
            case Over():
                self.over = entry

    @property
    def live(self) -> list[Node]:
        """Begun, and not over."""
        return list(self._live.values())

    @property
    def to_stop(self) -> list[Node]:
        """Live, and no longer wanted."""
        all_of_them = self.closing is not None and self.closing.stop
        return [node for node in self.live if node.replaced_by or all_of_them]

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


def replay(turns: Iterable[list[Entry]], sign: int = 1) -> State:
    """What the turns of a log come to.

    Args:
        sign: 1 where less is better, -1 where more is.
    """
    state = State(sign)
    for turn in turns:
        for entry in turn:
            state.apply(entry)
        state.turns += 1
    return state
