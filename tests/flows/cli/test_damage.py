"""Records that somebody changed by hand: said in one line that names them, and nothing else stands still for it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flows.cli.conftest import Slipway


@pytest.fixture
def records(bench: Slipway) -> Iterator[Path]:
    """The records of the run `more`; they are as they were again afterwards."""
    (home,) = bench.folder.glob("state/volumes/*/bench/.slipway/runs/more")
    before = {path: path.read_bytes() for path in home.rglob("*.json")}
    yield home
    for path, content in before.items():
        path.write_bytes(content)


def without(path: Path, key: str) -> str:
    content: dict[str, Any] = json.loads(path.read_text())
    del content[key]
    return json.dumps(content)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("plan.json", "[]", "no JSON object"),
        ("plan.json", "{", "damaged"),
        ("plan.json", "{}", "it has no"),
        ("plan.json", None, "no trainer"),
        (
            "plan.json",
            '{"run": 1, "volume": 2, "trainer": 3, "resolved": 4, "max_steps": "x", "created_at": 6}',
            "it has no run",
        ),
        ("attempts/1.json", "null", "no JSON object"),
        ("attempts/1.json", "{}", "it has no"),
        ("attempts/1.end.json", '{"state": "fine"}', "end.state"),
    ],
)
def test_a_damaged_record_is_named_and_the_other_runs_are_listed(
    bench: Slipway, records: Path, name: str, content: str | None, words: str
) -> None:
    path = records / name
    path.write_text(without(path, "trainer") if content is None else content)

    rows = {row["run"]: row for row in bench("runs", "list", "--volume", "bench", "-o", "json").json}
    assert rows["base"]["state"] == "completed"
    assert rows["more"]["state"] == "damaged" and words in rows["more"]["reason"]
    assert "damaged" in bench("runs", "list").out
    bench("runs", "show", "more").refused(1, words)
    if not name.endswith("end.json"):  # how an attempt ended does not matter to these
        bench("prune", "bench", "--keep-last", "1", "--yes").refused(1, words)
        bench("models", "remove", "slipway/tiny-lm", "--volume", "bench", "--yes").refused(1, words)


def test_a_record_of_a_newer_version_is_no_damaged_one(bench: Slipway, records: Path) -> None:
    plan = json.loads((records / "plan.json").read_text())
    plan["request"]["colour"] = "blue"
    (records / "plan.json").write_text(json.dumps(plan))
    bench("runs", "show", "more").refused(1, "plan.request.colour", "this version of Slipway does not know")


def test_an_attempt_that_is_gone_from_the_records_is_missed(bench: Slipway, records: Path) -> None:
    (records / "attempts" / "1.json").rename(records / "attempts" / "2.json")
    try:
        bench("runs", "show", "more").refused(1, "Attempt 1", "no longer on record")
    finally:
        (records / "attempts" / "2.json").unlink()


@pytest.mark.parametrize(("name", "content"), [("job.json", "{}"), ("job.json", "["), ("end.json", '{"state": 7}')])
def test_a_damaged_file_of_a_job_is_named(bench: Slipway, name: str, content: str) -> None:
    (job,) = bench.folder.glob("state/jobs/*/bench-more-*")
    path = job / name
    before = path.read_text()
    path.write_text(content)
    try:
        bench("runs", "logs", "more").refused(1, str(job), "damaged")
    finally:
        path.write_text(before)
