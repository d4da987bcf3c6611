"""A report as one self-contained HTML page: curves on one axis, the lineage, and what each run was made of."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from blocks.clusters.size import format_size
from tasks.reports.curves import COLORS, draw_curves
from tasks.reports.story import Story

_TEMPLATES = Path(__file__).parent


def render_page(title: str, facts: Sequence[tuple[str, str]], stories: Sequence[Story]) -> str:
    """The page as text.

    Args:
        facts: what the runs have in common, as (label, value).
        stories: the runs, parents before their forks.
    """
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["size"] = format_size
    return environment.get_template("page.html.j2").render(
        title=title,
        facts=facts,
        curves=Markup(draw_curves([s.curve() for s in stories])),  # noqa: S704 - drawn by us, labels escaped
        lineage=lineage(stories),
        stories=[{**s.facts(), "color": COLORS[i % len(COLORS)]} for i, s in enumerate(stories)],
    )


def lineage(stories: Sequence[Story]) -> list[dict[str, Any]]:
    """The tree of forks, depth first: each run with its depth and the step that it continued from."""
    known = {s.run for s in stories}
    rows: list[dict[str, Any]] = []

    def add(story: Story, depth: int) -> None:
        source = story.record.plan.resolved.source
        rows.append(
            {
                "run": story.run,
                "depth": depth,
                "from": f"step {source.step} of {source.run or source.path}" if source else "the base weights",
                "state": story.state.state,
                "steps": [c["step"] for c in story.checkpoints if c["verdict"] == "complete"],
                "color": COLORS[list(stories).index(story) % len(COLORS)],
            }
        )
        for child in stories:
            if child.parent == story.run and child is not story:
                add(child, depth + 1)

    for story in stories:
        if story.parent not in known:
            add(story, 0)
    return rows
