"""The tree of forks: made of records, so that nothing that is deleted falls out of it."""

import shutil
from pathlib import Path

import pytest

from blocks.clusters.errors import ProgramError
from tasks.reports.comparison import compare, comparison_page, comparison_picture
from tasks.reports.family import Member, family, tree
from tasks.reports.markdown import lineage_page
from tasks.reports.story import tell
from tests.tasks.conftest import CONFIG, Desk


@pytest.fixture
def volume(desk: Desk, tmp_path: Path) -> Path:
    """With `parent` of 12 steps, `child` from its step 8, `grandchild` from step 16 of that, `other` from step 4."""
    desk.train(desk.request("parent"))
    desk.train(desk.fork("parent", "child", step=8, max_steps=16))
    desk.train(desk.fork("child", "grandchild", step=16, max_steps=20))
    desk.train(desk.fork("parent", "other", step=4, max_steps=8, optim__lr=0.1))
    return tmp_path / "cluster/volumes/me/v"


def lines(desk: Desk, run: str) -> list[str]:
    return [f"{lead}: {m.origin}; {m.outcome}" for lead, m in tree(family(desk.cluster, "v", run))]


WHOLE = [
    "parent: from base weights; completed, complete steps 4, 8, 12",
    "├─ child: from step 8, held; completed, complete steps 12, 16",
    "│  └─ grandchild: from step 16, held; completed, complete steps 20",
    "└─ other: from step 4, held; completed, complete steps 8",
]


def test_a_family_is_the_same_from_each_of_its_runs_and_outlives_what_is_deleted(desk: Desk, volume: Path) -> None:
    for run in ("parent", "child", "grandchild", "other"):
        assert lines(desk, run) == WHOLE
    members = {m.run: m for m in family(desk.cluster, "v", "child")}
    assert members["child"].fingerprint and members["child"].source == "runs/parent/checkpoints/step_8"

    shutil.rmtree(volume / "runs/parent/checkpoints/step_4")
    shutil.rmtree(volume / "runs/child")
    told = lines(desk, "grandchild")
    assert told[1] == "├─ child: from step 8, held; completed, no checkpoints"
    assert told[2].startswith("│  └─ grandchild: from step 16, which is gone, held;")
    assert told[3].startswith("└─ other: from step 4, which is gone, held;")

    desk.cluster.call("v", "runs.release", {"run": "other"}, writable=True)
    assert lines(desk, "other")[3].startswith("└─ other: from step 4, which is gone, released;")
    desk.cluster.call("v", "runs.delete", {"run": "other"}, writable=True)
    assert "deleted 20" in lines(desk, "other")[3]

    shutil.rmtree(volume / ".slipway/runs/parent")
    told = lines(desk, "grandchild")
    assert told[0] == "parent: no longer on record; "
    assert len(told) == 4


def test_a_run_that_continued_from_a_path_has_that_as_its_root(desk: Desk, volume: Path) -> None:
    shutil.copytree(volume / "runs/parent/checkpoints/step_8", volume / "kept/step_8")
    config = CONFIG + '[resume]\ndir = "/volume/kept/step_8"\n'
    desk.train(desk.request("chained", config, max_steps=12))

    assert [line.partition(";")[0] for line in lines(desk, "chained")] == [
        "kept/step_8: a checkpoint that is no run's",
        "└─ chained: from step 8, held",
    ]
    with pytest.raises(ProgramError, match="no run 'absent'"):
        family(desk.cluster, "v", "absent")


def test_runs_are_compared_by_what_they_were_made_of_and_what_came_of_it(desk: Desk, volume: Path) -> None:
    first, second = (tell(desk.cluster, "v", run) for run in ("child", "other"))
    comparison = compare(first, second)

    differs = {d.key: (d.a, d.b) for d in comparison.differences}
    assert differs.pop("config.max_steps") == (16, 8) and differs.pop("config.optim.lr") == (0.004, 0.1)
    assert set(differs) == {"source.fingerprint", "source.path", "source.step"}
    assert comparison.losses == ()

    same = compare(first, first)
    assert same.differences == ()
    assert [row["step"] for row in same.losses] == list(range(9, 17))
    assert all(row["a"] == row["b"] for row in same.losses)
    assert comparison.facts()["beginning"]["weights read"] == ["read in place", "read in place"]
    page = comparison_page(comparison)
    assert "What it took until it trained" in page
    assert "config.optim.lr" in page and "<svg" in page
    assert 'src="' not in page and 'href="http' not in page
    assert comparison_picture(comparison).startswith(b"\x89PNG")


def test_what_an_attempt_was_given_and_what_came_of_it_is_on_record(desk: Desk, volume: Path) -> None:
    story = tell(desk.cluster, "v", "child")
    attempt = story.record.attempts[0]
    rendered = desk.cluster.call("v", "runs.rendered", {"run": "child"})["attempts"]["1"]

    assert attempt.version and attempt.end is not None and attempt.end.metrics is not None
    assert attempt.end.metrics["last_step"] == 16
    assert attempt.end.metrics["lowest_loss"] == story.summary()["lowest_loss"]
    assert rendered["name"] == "config.toml" and "holds/child/step_8" in rendered["text"]
    shutil.rmtree(volume / "runs/child")
    kept = tell(desk.cluster, "v", "child").record.attempts[0].end
    assert kept is not None and kept.metrics == attempt.end.metrics


def test_a_familys_page_leads_from_parents_to_forks_and_back() -> None:
    gone = Member(run="first", on_record=False)
    trial = Member(run="lr-t001", parent="first", step=8, state="completed", attempts=1)
    fork = Member(run="fork", parent="lr-t001", step=4, held=True, source_there=True, attempts=1)
    chain = [Member(run=f"n{n}", parent=f"n{n - 1}" if n else "lr-t001", step=n, state="failed") for n in range(300)]

    page = lineage_page([gone, trial, fork, *chain], {"fork", "n0"})

    assert "\n- `first`: no longer on record\n" in page
    assert "\n  - `lr-t001`: from step 8, which is gone; completed\n" in page, "a trial has no page to lead to"
    assert "\n    - [fork](../key/fork-training): from step 4, held; going on\n" in page
    assert "\n    - [n0](../key/n0-training): " in page
    assert "… and 103 more: `slipway lineage first` shows all." in page
    assert max(len(line) - len(line.lstrip(" ")) for line in page.splitlines()) == 16
