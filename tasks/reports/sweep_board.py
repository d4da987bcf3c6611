"""A sweep's leaderboard and lineage, from its log: rows for tables, CSV and JSON. Pure."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from tasks.sweeps.log import Node, State
from tasks.sweeps.plan import show_value
from tasks.sweeps.records import SweepRecord
from tasks.sweeps.rules import ALL_OVER


@dataclass(frozen=True)
class Now:
    """What is seen of a run that is not over: its newest value and step, and what it waits for, if it does."""

    value: float | None
    step: int
    waits: str = ""


class Row(BaseModel):
    """One run of a sweep.

    Args:
        place: from 1; None for a run that did not complete.
        value: of the metric; for one that trains, the newest.
        parent, parent_step: what it was forked from.
    """

    model_config = ConfigDict(frozen=True)

    place: int | None
    run: str
    trial: int
    stage: int
    state: str
    value: float | None
    step: int
    point: dict[str, Any]
    parent: str | None
    parent_step: int | None
    hours: float
    gpu_hours: float
    reason: str


_TOLD = ("queued", "failed", "stopped")
"""States of which people ask why."""


@dataclass(frozen=True)
class Board:
    """A sweep as its log tells it.

    Args:
        rows: the best first, then what trains, then what failed or was stopped.
    """

    record: SweepRecord
    state: State
    rows: Sequence[Row]

    @property
    def keys(self) -> list[str]:
        """The axes that any run has, by name."""
        return sorted({key for row in self.rows for key in row.point})

    @property
    def best(self) -> Row | None:
        return self.rows[0] if self.rows and self.rows[0].place else None

    @property
    def best_line(self) -> list[str]:
        """The best run, and what it was forked from, up to the one that began from the base weights."""
        parents = {row.run: row.parent for row in self.rows}
        found = [self.best.run] if self.best else []
        while found and (parent := parents.get(found[-1])):
            found.append(parent)
        return found

    @property
    def gpu_hours(self) -> float:
        return sum(row.gpu_hours for row in self.rows)

    @property
    def hours(self) -> float:
        return sum(row.hours for row in self.rows)

    @property
    def forks(self) -> bool:
        return any(row.parent for row in self.rows)

    @property
    def conclusion(self) -> str:
        """The sweep in one line."""
        states = [row.state for row in self.rows]
        counts = ", ".join(
            f"{states.count(s)} {s}" for s in ("completed", "running", "queued", "failed", "stopped") if s in states
        )
        where = "going on"
        if over := self.state.over:
            where = "over" if over.reason == ALL_OVER else f"over ({over.reason})"
        best = self.best
        metric = self.record.request.search.metric
        found = f"; best {metric} {best.value:.4g}, {best.run}" if best and best.value is not None else ""
        return f"{where}: {counts or 'nothing was begun'}{found}"

    def to_json(self) -> dict[str, Any]:
        search = self.record.request.search
        return {
            "sweep": self.record.sweep,
            "volume": self.record.volume,
            "method": search.method,
            "metric": search.metric,
            "direction": search.direction,
            "over": self.state.over.reason if self.state.over else None,
            "trials": self.state.trials,
            "planned": search.planned,
            "best": self.best.run if self.best else None,
            "best_value": self.best.value if self.best else None,
            "hours": self.hours,
            "gpu_hours": self.gpu_hours,
            "runs": [row.model_dump(mode="json") for row in self.rows],
        }

    def csv(self) -> str:
        """The leaderboard, a column an axis."""
        out = io.StringIO()
        head = (
            "place",
            "run",
            "trial",
            "stage",
            "state",
            "value",
            "step",
            "parent",
            "parent_step",
            "hours",
            "gpu_hours",
        )
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*head, *self.keys, "reason"])
        for row in self.rows:
            cells = [getattr(row, name) for name in head]
            writer.writerow([*cells, *(row.point.get(key, "") for key in self.keys), row.reason])
        return out.getvalue()

    def table(self, most: int | None = None) -> list[dict[str, Any]]:
        """Rows for a table, values as they are read.

        Args:
            most: how many rows; None for all.
        """
        shown = self.rows[:most]
        forked, told = self.forks, any(row.state in _TOLD for row in shown)
        return [
            {
                "place": row.place or "",
                "run": row.run,
                "state": row.state,
                self.record.request.search.metric: show_value(row.value),
                "step": row.step,
                **{key: show_value(row.point.get(key)) for key in self.keys},
                **({"forked from": f"step {row.parent_step} of {row.parent}" if row.parent else ""} if forked else {}),
                **({"why": row.reason if row.state in _TOLD else ""} if told else {}),
            }
            for row in shown
        ]


def board(record: SweepRecord, state: State, now: Mapping[str, Now] | None = None) -> Board:
    """The leaderboard of a sweep.

    Args:
        now: what is seen of runs that are not over.
    """
    ranked = state.ranked(record.request.search.sign)
    places = {node.start.run: place for place, node in enumerate(ranked, 1)}
    live = [node for node in state.nodes.values() if node.end is None]
    rest = [node for node in state.nodes.values() if node.end is not None and node.start.run not in places]
    rows = [_row(node, places.get(node.start.run), (now or {}).get(node.start.run)) for node in (*ranked, *live, *rest)]
    return Board(record, state, rows)


def _row(node: Node, place: int | None, now: Now | None) -> Row:
    start, end = node.start, node.end
    now = now or Now(None, start.origin.step if start.origin else 0)
    return Row(
        place=place,
        run=start.run,
        trial=start.trial,
        stage=start.stage,
        state=end.state if end else "queued" if now.waits else "running",
        value=end.value if end else now.value,
        step=end.step if end else now.step,
        point=start.point,
        parent=start.origin.run if start.origin else None,
        parent_step=start.origin.step if start.origin else None,
        hours=end.hours if end else 0,
        gpu_hours=end.gpu_hours if end else 0,
        reason=(end.reason if end and end.state != "completed" else "") or now.waits or start.why,
    )


def lineage(found: Board) -> list[tuple[int, Row]]:
    """The tree of forks, depth first: each run with its depth; trials that were never forked are left out."""
    children: dict[str, list[Row]] = {}
    for row in sorted(found.rows, key=lambda row: (row.trial, row.stage)):
        if row.parent:
            children.setdefault(row.parent, []).append(row)
    out: list[tuple[int, Row]] = []

    def add(row: Row, depth: int) -> None:
        out.append((depth, row))
        for child in children.get(row.run, ()):
            add(child, depth + 1)

    for row in sorted(found.rows, key=lambda row: row.trial):
        if row.parent is None and row.run in children:
            add(row, 0)
    return out
