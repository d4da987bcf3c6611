"""Two runs side by side: what was asked for otherwise, and what came of it. As a record, a page, a picture."""

import io
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict

from tasks.reports.curves import COLORS, draw_curves, figure_of
from tasks.reports.story import Story
from tasks.runs.request import changes

_ROWS = 12


class Difference(BaseModel):
    """One key whose values differ; None where it is not set."""

    model_config = ConfigDict(frozen=True)

    key: str
    a: Any
    b: Any


class Comparison(BaseModel):
    """
    Args:
        differences: of what the runs were made of: config, weights, dataset, source, trainer, version.
        losses: at some steps that both trained, as {"step", "a", "b"}; the last one is among them.
    """

    model_config = ConfigDict(frozen=True)

    a: Story
    b: Story
    differences: tuple[Difference, ...]
    losses: tuple[dict[str, Any], ...]

    def facts(self) -> dict[str, Any]:
        """As plain JSON."""
        began = (self.a.beginning(), self.b.beginning())
        return {
            "beginning": {name: [told.get(name) for told in began] for name in {**began[0], **began[1]}},
            "runs": [self.a.facts() | self.a.summary(), self.b.facts() | self.b.summary()],
            "differences": [difference.model_dump(mode="json") for difference in self.differences],
            "losses": list(self.losses),
        }


def compare(a: Story, b: Story) -> Comparison:
    found = changes(_made_of(a), _made_of(b))
    return Comparison(
        a=a,
        b=b,
        differences=tuple(Difference(key=key, a=old, b=new) for key, old, new in found),
        losses=tuple(_losses(a, b)),
    )


def comparison_page(comparison: Comparison) -> str:
    """One self-contained HTML page."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    curves = draw_curves([comparison.a.curve(), comparison.b.curve()])
    return environment.get_template("comparison.html.j2").render(
        comparison=comparison,
        facts=comparison.facts(),
        colors=COLORS,
        curves=Markup(curves),  # noqa: S704 - drawn by us, labels escaped
    )


def comparison_picture(comparison: Comparison) -> bytes:
    """The loss curves as a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = figure_of([comparison.a.curve(), comparison.b.curve()])
    FigureCanvasAgg(figure)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=150)
    return out.getvalue()


def _made_of(story: Story) -> dict[str, Any]:
    plan = story.record.plan
    resolved = plan.resolved.model_dump(mode="json", exclude={"weights": {"download", "bytes"}, "source": {"hold"}})
    return {
        "config": plan.config,
        "trainer": plan.request.trainer.model_dump(mode="json"),
        **{name: value or {} for name, value in resolved.items()},
        "weights": {**resolved["weights"], "placement": plan.request.weights.placement},
        "volume": plan.volume,
        "version": plan.version,
    }


def _losses(a: Story, b: Story) -> list[dict[str, Any]]:
    first, second = a.losses(), b.losses()
    both = sorted(first.keys() & second.keys())
    every = max(1, -(-len(both) // _ROWS))
    chosen = sorted({*both[::every], *both[-1:]})
    return [{"step": step, "a": first[step], "b": second[step]} for step in chosen]
