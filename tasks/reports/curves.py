"""Loss curves as SVG: one axis, a line a run, completed checkpoints marked."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 6.4
"""Inches of a picture: on a page half as wide as a screen, text of ten points is then as large as what is around it."""

COLORS = ("#2563eb", "#ea580c", "#059669", "#9333ea", "#dc2626", "#0891b2", "#ca8a04", "#4b5563")


@dataclass(frozen=True)
class Curve:
    """One run's metrics.

    Args:
        rows: metrics lines in the order of their steps; those without a loss are left out.
        complete: steps with a complete checkpoint.
        start: step that the run continued from; 0 for base weights.
    """

    label: str
    rows: Sequence[dict[str, Any]]
    complete: Sequence[int] = field(default_factory=tuple)
    start: int = 0


def draw_curves(curves: Sequence[Curve], *, title: str = "") -> str:
    """The curves as one self-contained SVG (no script, no font, no link to anywhere)."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    figure = figure_of(curves, title=title)
    FigureCanvasSVG(figure)
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def figure_of(curves: Sequence[Curve], *, title: str = "") -> "Figure":
    """The curves, to be drawn in any format."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    axes = figure.add_subplot()
    for curve, color in zip(curves, COLORS * len(curves), strict=False):
        loss = {row["step"]: row["loss"] for row in curve.rows if row.get("loss") is not None}
        axes.plot(list(loss), list(loss.values()), color=color, linewidth=1.6, label=curve.label)
        marked = [s for s in curve.complete if s in loss]
        axes.plot(marked, [loss[s] for s in marked], "o", color=color, markersize=4.5)
        if curve.start:
            axes.axvline(curve.start, color=color, linewidth=0.8, linestyle=":")
    whole_steps(axes)
    axes.set_ylabel("loss")
    axes.set_title(title)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if any(c.rows for c in curves):
        axes.legend(frameon=False)
    return figure


def whole_steps(axes: "Axes") -> None:
    """Steps are whole numbers, however few there are."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))


def data_uri(svg: str) -> str:
    """An SVG as the address of a picture, as both Prefect UIs show it in Markdown."""
    import base64

    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
