"""What is found in the files of a dataset, and whether a trainer can read it."""

import base64
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.plans.content import misfit
from tasks.pod import datasets
from tasks.pod.contents import look_into
from tasks.pod.layout import Layout
from tasks.pod.parquet import NoParquetError, read_footer
from tasks.pod.trainers.adapter import Needs

# two rows of messages, id and meta: {a, b: {c}}, written by pyarrow 22
PARQUET = base64.b64decode(
    "UEFSMRUAFTgVSiwVBBUAFQYVBhwAAAAotS/9IBzhAAACAAAABAACAAAABAQEAAAAdXNlcgQAAAB1c2VyFQAVLBU+LBUEFQAVBhUG"
    "HAAAACi1L/0gFrEAAAIAAAAEAAIAAAAEBAEAAABhAQAAAGIVABUsFT4sFQQVABUGFQYcAAAAKLUv/SAWsQAAAgAAAAQBAQAAAAAA"
    "AAACAAAAAAAAABUAFSwVPiwVBBUAFQYVBhwAAAAotS/9IBaxAAACAAAABAIBAAAAAAAAAAIAAAAAAAAAFQAVLBU+LBUEFQAVBhUG"
    "HAAAACi1L/0gFrEAAAIAAAAEAwAAAAAAAABAAAAAAAAA8D8VBBm8NQAYBnNjaGVtYRUGADUCGAhtZXNzYWdlcxUCFQZMPAAAADUE"
    "GARsaXN0FQIANQIYB2VsZW1lbnQVBAAVDCUCGARyb2xlJQBMHAAAABUMJQIYB2NvbnRlbnQlAEwcAAAAFQQlAhgCaWQANQIYBG1l"
    "dGEVBAAVBCUCGAFhADUCGAFiFQIAFQolAhgBYwAWBBkcGVwmABwVDBklBgAZSAhtZXNzYWdlcwRsaXN0B2VsZW1lbnQEcm9sZRUM"
    "FgQWXhZwJghJHBUAFQAVAgA8FhAZJgQAGVYAAAAABAAAACYAHBUMGSUGABlICG1lc3NhZ2VzBGxpc3QHZWxlbWVudAdjb250ZW50"
    "FQwWBBZSFmQmeEkcFQAVABUCADwWBBkmBAAZVgAAAAAEAAAAJgAcFQQZJQYAGRgCaWQVDBYEFlIWZCbcAUkcFQAVABUCADwpBhkm"
    "AAQAAAAmABwVBBklBgAZKARtZXRhAWEVDBYEFlIWZCbAAkkcFQAVABUCADwpBhk2AAAEAAAAJgAcFQoZJQYAGTgEbWV0YQFiAWMV"
    "DBYEFlIWZCakA0kcFQAVABUCADwpBhlGAAAABAAAABamAxYEJggWgAQAKCBwYXJxdWV0LWNwcC1hcnJvdyB2ZXJzaW9uIDI2LjAu"
    "MRlcHAAAHAAAHAAAHAAAHAAAAP0BAABQQVIx"
)
NEEDS = Needs("m", "d", 1, formats=("jsonl",), columns=(("text",), ("prompt", "completion")))


def _look(root: Path, **files: str | bytes) -> dict[str, Any]:
    paths = []
    for name, content in files.items():
        path = f"{name.replace('__', '.')}"
        (root / path).write_bytes(content.encode() if isinstance(content, str) else content)
        paths.append(path)
    return look_into(root, paths)


def _lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_rows_columns_and_kinds_are_counted(tmp_path: Path) -> None:
    found = _look(
        tmp_path,
        train__jsonl=_lines({"prompt": "a", "completion": "b", "id": 1}, {"prompt": "c", "completion": "d"}),
        README__md="# data",
        part__parquet=PARQUET,
    )

    assert found["problems"] == []
    assert found["formats"] == {
        "jsonl": {"files": 1, "rows": 2, "columns": ["completion", "prompt"], "kinds": ["prompt+completion"]},
        "other": {"files": 1, "rows": 0, "columns": [], "kinds": []},
        "parquet": {"files": 1, "rows": 2, "columns": ["id", "messages", "meta"], "kinds": ["messages"]},
    }


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"text": "a"}\n{"text": \n', "train.jsonl line 2 is no JSON"),
        ('{"text": "a"}\n["b"]\n', "train.jsonl line 2 is no JSON object"),
        ("\n\n", "train.jsonl has no lines"),
        (_lines({"text": "a"}, {"messages": []}), "train.jsonl mixes examples: line 1 has text, line 2 messages"),
        (b'{"text": "\xff"}\n', "train.jsonl line 1 is no JSON"),
        ("[" * 100_000 + "\n", "train.jsonl line 1 is no JSON"),
    ],
)
def test_lines_that_no_trainer_could_read_are_named(tmp_path: Path, content: str | bytes, problem: str) -> None:
    (found,) = _look(tmp_path, train__jsonl=content)["problems"]
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (PARQUET[:-1], "cut"),
        (b"PAR1" + PARQUET, "no"),
        (b"", "0 bytes"),
        (PARQUET[:-8] + b"\xff\xff\xff\x00PAR1", "says"),
    ],
)
def test_parquet_that_is_not_whole_is_named(tmp_path: Path, content: bytes, why: str) -> None:
    problems = _look(tmp_path, part__parquet=content)["problems"]
    assert (why == "no" and not problems) or why in problems[0]


@given(st.integers(0, 300), st.integers(0, 255))
def test_a_damaged_footer_is_an_answer_not_a_crash(
    tmp_path_factory: pytest.TempPathFactory, back: int, byte: int
) -> None:
    path = tmp_path_factory.mktemp("p") / "part.parquet"
    damaged = bytearray(PARQUET)
    damaged[-1 - back] = byte
    path.write_bytes(damaged)
    with contextlib.suppress(NoParquetError):
        read_footer(path)


def test_of_many_problems_the_first_are_shown(tmp_path: Path) -> None:
    problems = _look(tmp_path, **{f"f{number}__jsonl": "{\n" for number in range(30)})["problems"]
    assert len(problems) == 21 and problems[-1] == "and 10 more"


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"a__jsonl": _lines({"text": "x"})}, ""),
        ({"a__jsonl": _lines({"prompt": "x", "completion": "y"})}, ""),
        ({"a__jsonl": _lines({"text": "x"}), "b__jsonl": _lines({"prompt": "x", "completion": "y"})}, ""),
        ({"a__jsonl": _lines({"messages": []})}, "its columns are messages; the trainer needs text, or prompt and"),
        ({"a__jsonl": _lines({"input": "x"})}, "its columns are input"),
        ({"a__parquet": PARQUET}, "it has 1 parquet; the trainer reads jsonl files"),
        ({"a__txt": "x"}, "it has 1 other; the trainer reads jsonl files"),
    ],
)
def test_a_trainer_that_can_not_read_it_is_told_why(tmp_path: Path, files: dict[str, Any], why: str) -> None:
    found = misfit(_look(tmp_path, **files), NEEDS)
    assert found.startswith(why) and bool(found) == bool(why)


def test_a_trainer_that_says_nothing_takes_anything(tmp_path: Path) -> None:
    assert misfit(_look(tmp_path, a__txt="x"), Needs("m", "d", 1)) == ""


def test_what_is_found_is_in_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "train.jsonl").write_text('{"text": "a"}\n{oops\n')
    layout = Layout(tmp_path / "volume")

    state = datasets.stage(layout, {"name": "d", "source": {"kind": "folder", "path": str(tmp_path / "d")}})

    assert state["content"]["formats"]["jsonl"]["rows"] == 1
    assert state["content"]["problems"][0].startswith("train.jsonl line 2 is no JSON")
