"""Every directory of the corpus gets its right verdict, at both depths. The files were written by the real libraries;
`tests/data/checkpoints/README.md` says what the fields mean."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tasks.pod.checkpoints.find import find
from tasks.pod.checkpoints.judge import judge

CORPUS = Path("tests/data/checkpoints")
CASES: list[dict[str, Any]] = json.loads((CORPUS / "expected.json").read_text())["cases"]
DEPTHS = ("cheap", "deep")


def unpack(case: dict[str, Any], to: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with tarfile.open(CORPUS / case["tar"]) as tar:
        tar.extractall(to, filter="data")
    monkeypatch.chdir(to)
    return to / case["root"]


def accepted(step: dict[str, Any], depth: str) -> list[str]:
    return step.get(f"accept_{depth}") or step.get("accept") or [step.get(depth) or step["verdict"]]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_corpus(case: dict[str, Any], depth: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = unpack(case, tmp_path, monkeypatch)

    report = find(root, deep=depth == "deep")

    found = {c.path: c for c in report.checkpoints}
    for step in case["steps"]:
        if step["path"] not in found and step.get("optional"):
            continue
        checkpoint = found.pop(step["path"])
        assert checkpoint.verdict in accepted(step, depth), (step, checkpoint)
        assert checkpoint.step == step["step"]
        assert checkpoint.bytes or step["path"].endswith("step_20")
        assert checkpoint.why
        if checkpoint.complete:
            assert checkpoint.resumable is step.get("resumable", True)
            assert checkpoint.format == case["format"]
    assert found.keys() <= set(case.get("may_also_list", []))
    right = case.get(f"latest_accept_{depth}") or case.get("latest_accept")
    right = right or [case.get(f"latest_complete_{depth}", case["latest_complete"])]
    assert report.latest_complete in right
    resumable = [c.path for c in report.checkpoints if c.complete and c.resumable]
    if "latest_resumable" in case:
        assert (resumable[-1] if resumable else None) == case["latest_resumable"]
    assert not list(tmp_path.rglob("PWNED"))
    steps = [c.step for c in report.checkpoints if c.step is not None]
    assert steps == sorted(steps)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_a_step_judged_alone_is_never_better_than_it_is(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = unpack(case, tmp_path, monkeypatch)
    for step in case["steps"]:
        alone = judge(root / step["path"])
        assert not alone.complete or "complete" in accepted(step, "cheap"), alone


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_what_was_complete_is_complete_when_looked_at_again(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = unpack(case, tmp_path, monkeypatch)
    first = find(root)
    assert find(root, known={c.path: c for c in first.checkpoints if c.complete}) == first
