"""The report says what runs were made of and what continued from what, from the volume alone, on one page by itself."""

import re
from html.parser import HTMLParser

import pytest

from tasks.reports.page import lineage, render_page
from tasks.reports.story import Story, tell
from tests.tasks.conftest import Desk


@pytest.fixture
def stories(desk: Desk) -> list[Story]:
    """A parent of twelve steps, and its fork from step 8."""
    desk.train(desk.request("parent"))
    desk.train(desk.fork("parent", "child", step=8, max_steps=16, optim__lr=0.002))
    return [tell(desk.cluster, desk.volume, run) for run in ("parent", "child")]


class Loads(HTMLParser):
    """What a page loads from elsewhere."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {key}={value}" for key, value in attrs if key in ("src", "href") and value[:1] != "#"]


def test_a_report_tells_of_runs_from_the_volume_alone(stories: list[Story]) -> None:
    parent, child = [story.facts() for story in stories]

    assert (parent["state"], parent["first_step"], parent["last_step"]) == ("completed", 1, 12)
    assert [c["step"] for c in parent["checkpoints"]] == [4, 8, 12]
    assert parent["continued_from"] is None
    assert (child["state"], child["first_step"], child["last_step"]) == ("completed", 9, 16)
    assert (child["continued_from"]["run"], child["continued_from"]["step"]) == ("parent", 8)
    assert child["weights"]["commit"] == parent["weights"]["commit"] and len(parent["weights"]["commit"]) == 40
    assert child["dataset"] == parent["dataset"]

    rows = lineage(stories)
    assert [(row["run"], row["depth"], row["from"]) for row in rows] == [
        ("parent", 0, "the base weights"),
        ("child", 1, "step 8 of parent"),
    ]
    assert [row["steps"] for row in rows] == [[4, 8, 12], [12, 16]]
    assert lineage(stories[1:])[0]["depth"] == 0, "a fork is shown without its parent too"


def test_a_page_loads_nothing_and_runs_nothing_of_what_it_shows(stories: list[Story]) -> None:
    page = render_page("<script>alert(1)</script>", [("volume", "<b>v</b> & w")], stories)

    assert Loads(page).found == []
    assert "<script" not in page
    assert "&lt;b&gt;v&lt;/b&gt; &amp; w" in page
    assert len(re.findall("<svg", page)) == 1
    assert "step 8 of parent" in page


def test_a_run_that_has_not_begun_has_a_page_too(desk: Desk) -> None:
    desk.record(desk.request("planned"))
    story = tell(desk.cluster, desk.volume, "planned")

    assert story.facts()["first_loss"] is None
    assert "planned" in render_page("Report", [], [story])
