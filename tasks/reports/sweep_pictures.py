"""Pictures of a sweep as SVG: the curves of its trials, and what mattered: parallel coordinates and slices."""

import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tasks.reports.curves import WIDTH, whole_steps
from tasks.reports.sweep_board import Board, Row
from tasks.runs.alike import place_of
from tasks.sweeps.axes import Axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES = 200
"""More lines than that say nothing, and make a page that no browser likes: the best are drawn."""

_BEST = "#dc2626"
_OTHER = "#64748b"
_FEW = 4
"""So many axes have room for their names."""

Curves = Mapping[str, Sequence[tuple[int, float]]]


def draw_trials(board: Board, curves: Curves) -> str:
    """The metric of all trials by step, the best in colour; a dot is where a fork took over.

    Args:
        curves: run → (step, value).
    """
    figure, axes = _figure(WIDTH, 3.3)
    shown = [row for row in board.rows if curves.get(row.run)][:MOST_LINES]
    red = board.best_line
    until = {row.parent: row.parent_step for row in board.rows if row.run in red}
    for row in sorted(shown, key=lambda row: row.run in red):
        points = [*_before(row, curves), *curves[row.run]]
        axes.plot(*_split(points), color=_OTHER, linewidth=0.9, alpha=0.55)
        if row.run in red:  # of what the best was forked from: up to there
            end = until.get(row.run)
            counted = [point for point in points if end is None or point[0] <= end]
            axes.plot(*_split(counted), color=_BEST, linewidth=2.0, label=row.run if row.run == red[0] else None)
        if row.parent or len(points) == 1:
            axes.plot(*_split(points[:1]), "o", color=_BEST if row.run in red else _OTHER, markersize=3)
    whole_steps(axes)
    axes.set_ylabel(board.record.request.search.metric)
    if red and curves.get(red[0]):
        axes.legend(frameon=False)
    return _svg(figure)


def _split(points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [step for step, _ in points], [value for _, value in points]


def _before(row: Row, curves: Curves) -> list[tuple[int, float]]:
    """Where a fork took over: its parent's value at that step."""
    until = [point for point in curves.get(row.parent or "", ()) if point[0] <= (row.parent_step or 0)]
    return until[-1:]


def draw_parallel(board: Board) -> str:
    """Parallel coordinates: a line a trial, through its value of each axis to its metric; the best are darkest."""
    rows = [row for row in board.rows if row.place and row.value is not None][:MOST_LINES]
    keys = board.keys
    figure, axes = _figure(WIDTH, 3.6)
    search = board.record.request.search
    values = [row.value for row in rows if row.value is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    for row in reversed(rows):
        heights = [_height(search.axes[key], row.point.get(key)) for key in keys]
        end = 0.5 if high == low else ((row.value or 0) - low) / (high - low)
        share = 1 - ((row.place or 1) - 1) / max(1, len(rows) - 1)
        color = _BEST if row.place == 1 else (0.15, 0.39, 0.92, 0.15 + 0.6 * share**2)
        axes.plot(range(len(keys) + 1), [*heights, end], color=color, linewidth=2.2 if row.place == 1 else 1.0)
    for place, key in enumerate([*keys, search.metric]):
        axes.axvline(place, color="#9ca3af", linewidth=0.8)
        ends = _ends(search.axes[key]) if place < len(keys) else (f"{low:.4g}", f"{high:.4g}")
        for text, y in zip(ends, (-0.05, 1.03), strict=True):
            axes.text(place, y, text, ha="center", va="top" if y < 0 else "bottom", fontsize=8)
    # a line for each part of a key: many of them stand side by side
    names = [name.replace(".", ".\n").replace("_", "_\n" if len(keys) > _FEW else "_") for name in keys]
    axes.set_xticks(range(len(keys) + 1), [*names, search.metric], fontsize=9 if len(keys) <= _FEW else 7)
    axes.tick_params(axis="x", pad=20, length=0)
    axes.set_yticks([])
    axes.set_ylim(-0.02, 1.02)
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    return _svg(figure)


def draw_slices(board: Board) -> str:
    """The metric against each axis, a dot a run; where runs were forked, those that trained longer are darker."""
    rows = [row for row in board.rows if row.place and row.value is not None]
    keys = board.keys
    columns = min(3, max(1, len(keys)))
    lines = math.ceil(max(1, len(keys)) / columns)
    figure, _ = _figure(WIDTH, 2.3 * lines)
    figure.clear()
    steps = sorted({row.step for row in rows}) if board.forks else []
    shades = {step: 0.25 + 0.75 * n / (len(steps) - 1) for n, step in enumerate(steps)} if len(steps) > 1 else {}
    for place, key in enumerate(keys, 1):
        axes = figure.add_subplot(lines, columns, place)
        _tidy(axes)
        _slice(axes, board, rows, key, shades)
        if (place - 1) % columns == 0:
            axes.set_ylabel(board.record.request.search.metric)
    return _svg(figure)


def _slice(axes: "Axes", board: Board, rows: Sequence[Row], key: str, shades: Mapping[int, float]) -> None:
    axis = board.record.request.search.axes[key]
    there = [row for row in rows if key in row.point]
    if axis.choices is not None:
        places = [place_of(axis.choices, row.point[key]) for row in there]
        axes.set_xticks(range(len(axis.choices)), [_short(choice) for choice in axis.choices])
    else:
        places = [row.point[key] for row in there]
        if axis.log:
            axes.set_xscale("log")
    colors = [(0.15, 0.39, 0.92, shades.get(row.step, 0.6)) for row in there]
    axes.scatter(places, [row.value or 0 for row in there], s=16, color=colors, linewidths=0)
    best = [(p, row.value or 0) for p, row in zip(places, there, strict=True) if row.place == 1]
    if best:
        axes.scatter([p for p, _ in best], [value for _, value in best], s=30, color=_BEST, zorder=3)
    axes.set_xlabel(key)


def _height(axis: Axis, value: Any) -> float:
    """Where a value stands on its axis, from 0 to 1; in the middle for a trial that does not have it."""
    if value is None:
        return 0.5
    if axis.choices is not None:
        return place_of(axis.choices, value) / max(1, len(axis.choices) - 1)
    low, high = axis.ends
    if axis.log:
        return math.log(value / low) / math.log(high / low)
    return float((value - low) / (high - low))


def _ends(axis: Axis) -> tuple[str, str]:
    if axis.choices is not None:
        return _short(axis.choices[0]), _short(axis.choices[-1])
    low, high = axis.ends
    return f"{low:g}", f"{high:g}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 14 else f"{text[:13]}…"


def _figure(width: float, height: float) -> "tuple[Figure, Axes]":
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    _tidy(axes)
    return figure, axes


def _tidy(axes: "Axes") -> None:
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _svg(figure: "Figure") -> str:
    from matplotlib import rc_context

    out = io.StringIO()
    with rc_context({"svg.hashsalt": "slipway"}):  # the same picture is the same text
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
