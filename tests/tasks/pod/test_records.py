"""Records that were damaged are named, whatever the damage."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from tasks.pod.errors import ChangedError
from tasks.pod.records import Shape, read_record

SHAPE: Shape = {"run": str, "at": datetime, "trainer": {"kind": str, "deep": {"n": (int, float)}}}
GOOD = {"run": "r", "at": "2026-11-30T00:00:00+00:00", "trainer": {"kind": "tiny", "deep": {"n": 1}}, "more": 1}


def test_a_record_may_have_more_than_its_shape(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps(GOOD))
    assert read_record(tmp_path / "r.json", SHAPE) == GOOD


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps(GOOD)[:40], "damaged"),
        ("", "damaged"),
        ("[" * 100_000, "damaged"),
        ("[]", "no JSON object"),
        (json.dumps({**GOOD, "run": None}), "no run,"),
        (json.dumps({**GOOD, "at": "yesterday"}), "no at,"),
        (json.dumps({**GOOD, "at": 3}), "no at,"),
        (json.dumps({**GOOD, "trainer": []}), "no trainer,"),
        (json.dumps({**GOOD, "trainer": {"deep": {"n": "x"}}}), "no trainer.kind, trainer.deep.n,"),
    ],
)
def test_what_is_wrong_with_a_record_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ChangedError) as told:
        read_record(tmp_path / "r.json", SHAPE)
    assert words in str(told.value) and "r.json" in str(told.value)
