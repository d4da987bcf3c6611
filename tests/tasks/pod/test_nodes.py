"""Which nodes have the weights of a run copied already: what the runs there wrote down last."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tasks.pod.hydrate import place_weights, preferred_nodes
from tasks.pod.layout import Layout
from tasks.pod.nodes import note
from tests.tasks.pod.staging.conftest import write_model


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "volume")
    for name in ("one", "two"):
        write_model(layout.root / "models" / name)
    return layout


@pytest.fixture(autouse=True)
def no_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.pod.node_cache._MARGIN", 0)


def plan(weights: str, placement: str = "node") -> dict[str, Any]:
    asked = {"weights": {"placement": placement}}
    return {"run": "r", "request": asked, "resolved": {"weights": {"path": f"models/{weights}"}}}


@contextmanager
def on(node: str, tmp_path: Path, limit: int = 2**30) -> Iterator[Path]:
    """A job on a node of that name, each with a cache of its own; it lives for as long as this is open."""
    alive = tmp_path / f"alive-{node}-{limit}"
    with pytest.MonkeyPatch.context() as patch, alive.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        patch.setenv("SLIPWAY_NODE", node)
        patch.setenv("SLIPWAY_NODE_CACHE", str(tmp_path / node))
        patch.setenv("SLIPWAY_NODE_CACHE_BYTES", str(limit))
        patch.setenv("SLIPWAY_ALIVE", str(alive))
        yield tmp_path / "scratch"


def test_the_nodes_that_have_a_copy_are_preferred_the_last_seen_first(layout: Layout, tmp_path: Path) -> None:
    assert preferred_nodes(layout, plan("one")) == []
    for node in ("a", "b"):
        with on(node, tmp_path) as scratch:
            _, report = place_weights(layout, plan("one"), 1, scratch)
            assert report["node"] == node
    with on("c", tmp_path) as scratch:
        place_weights(layout, plan("two"), 1, scratch)

    assert preferred_nodes(layout, plan("one")) == ["b", "a"]
    assert preferred_nodes(layout, plan("two")) == ["c"]
    assert preferred_nodes(layout, plan("one", "hydrate")) == []


def test_what_went_from_a_nodes_cache_is_not_looked_for_there(layout: Layout, tmp_path: Path) -> None:
    with on("a", tmp_path) as scratch:
        place_weights(layout, plan("one"), 1, scratch)
    with on("a", tmp_path, limit=1_300_000) as scratch:  # room for one of the two
        place_weights(layout, plan("two"), 1, scratch)

    assert preferred_nodes(layout, plan("one")) == []
    assert preferred_nodes(layout, plan("two")) == ["a"]


def test_weights_that_were_changed_are_others(layout: Layout, tmp_path: Path) -> None:
    with on("a", tmp_path) as scratch:
        place_weights(layout, plan("one"), 1, scratch)
    shutil.rmtree(layout.root / "models/one")
    write_model(layout.root / "models/one", seed=1)

    assert preferred_nodes(layout, plan("one")) == []


def test_a_note_that_can_not_be_read_or_written_harms_nobody(layout: Layout, tmp_path: Path) -> None:
    with on("a", tmp_path) as scratch:
        place_weights(layout, plan("one"), 1, scratch)
    layout.node("b").write_text('{"node": "b"}')
    layout.node("c").write_text("no JSON")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLIPWAY_NODE", "../../etc")
        note(layout, ["k"])

    assert preferred_nodes(layout, plan("one")) == ["a"]
    assert sorted(path.name for path in layout.nodes.iterdir()) == ["a.json", "b.json", "c.json"]
