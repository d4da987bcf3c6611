"""What is found in the files of a dataset, and whether a trainer can read it."""

import base64
import bz2
import contextlib
import gzip
import json
import lzma
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.plans.content import describe, misfit
from tasks.pod import datasets
from tasks.pod.contents import look_into
from tasks.pod.layout import Layout
from tasks.pod.parquet import NoParquetError, read_footer
from tasks.pod.rows import read_rows
from tasks.pod.trainers.adapter import Needs

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

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
        ("\n\n", "train.jsonl has no rows"),
        (_lines({"text": "a"}, {"messages": []}), "train.jsonl mixes examples: line 1 has text, line 2 messages"),
        (b'{"text": "\xff"}\n', "train.jsonl line 1 is no JSON"),
        ("[" * 100_000 + "\n", "train.jsonl line 1 is no JSON"),
    ],
)
def test_lines_that_no_trainer_could_read_are_named(tmp_path: Path, content: str | bytes, problem: str) -> None:
    (found,) = _look(tmp_path, train__jsonl=content)["problems"]
    assert found.startswith(problem)


ROWS = [{"text": "a\u00e9", "n": 1}, {"text": "b", "n": None}]
AS = {
    "jsonl": _lines(*ROWS),
    "json": json.dumps(ROWS, indent=1),
    "csv": 'text,n\n"a\u00e9",1\n"b\nc",\n',
    "tsv": "text\tn\na\t1\nb\t\n",
}
PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd.compress}


@pytest.mark.parametrize("packed", ["", *PACKED])
@pytest.mark.parametrize("kind", AS)
def test_what_load_dataset_reads_is_looked_into(tmp_path: Path, kind: str, packed: str) -> None:
    content = AS[kind].encode()
    name = f"train__{kind}__{packed}" if packed else f"train__{kind}"
    found = _look(tmp_path, **{name: PACKED[packed](content) if packed else content})

    told = f"{'csv' if kind == 'tsv' else kind}{f'.{packed}' if packed else ''}"
    assert found == {
        "formats": {told: {"files": 1, "rows": 2, "columns": ["n", "text"], "kinds": ["text"]}},
        "problems": [],
    }
    assert misfit(found, Needs("m", "d", 1, columns=(("text",),))) == ""
    assert "its columns are n, text" in misfit(found, Needs("m", "d", 1, columns=(("messages",),)))
    assert bool(misfit(found, NEEDS)) == (told != "jsonl")


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"no" + data[2:], lambda data: data[:20]])
def test_what_can_not_be_decompressed_is_named(tmp_path: Path, packed: str, damage: Callable[[bytes], bytes]) -> None:
    data = PACKED[packed](_lines(*({"text": str(number)} for number in range(5000))).encode())
    (problem,) = _look(tmp_path, **{f"train__jsonl__{packed}": damage(data)})["problems"]
    assert problem.startswith(f"train.jsonl.{packed} can not be decompressed")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a__json", '[{"text": "a"}, {"text": ', "a.json row 2 is no JSON"),
        ("a__json", '[{"text": "a"} {"text": "b"}]', "a.json has no comma after row 1"),
        ("a__json", '[{"text": "a"},', "a.json ends after row 1"),
        ("a__json", '{"data": [{"text": "a"}]}', "a.json is one object with its rows below 'data'"),
        ("a__json", '{"version": "1", "data": [{"text": "a"}]}', "a.json is one object with its rows below 'data'"),
        ("a__json", b'[{"text": "\xff"}]', "a.json is no text in UTF-8"),
        ("a__json", "", "a.json is empty"),
        ("a__json", "[]", "a.json has no rows"),
        ("a__csv", "text,n\na,1\nb,2,3\n", "a.csv line 3 has 3 cells, and there are 2 columns"),
        ("a__csv", 'text,n\n"a,1\n', "a.csv line 2 is no CSV"),
        ("a__csv", "text,n\n", "a.csv has no rows"),
        ("a__csv", b"text\n\xff\n", "a.csv line 2 is no text in UTF-8"),
        ("a__tsv", "text\tn\na\tb\tc\n", "a.tsv line 2 has 3 cells"),
    ],
)
def test_tables_that_can_not_be_read_are_named(tmp_path: Path, name: str, content: str | bytes, problem: str) -> None:
    (found,) = _look(tmp_path, **{name: content})["problems"]
    assert found.startswith(problem)


def test_lines_under_another_name_and_one_object_are_rows(tmp_path: Path) -> None:
    found = _look(tmp_path, a__json='{"text": "a",\n "n": 1}', b__json=_lines({"text": "c", "n": 3}, {"text": "d"}))
    assert found["formats"]["json"] == {"files": 2, "rows": 3, "columns": ["text"], "kinds": ["text"]}
    assert found["problems"] == []


def test_an_index_that_pandas_wrote_is_a_column(tmp_path: Path) -> None:
    found = _look(tmp_path, a__csv=",text\n0,a\n")
    assert found["formats"]["csv"]["columns"] == ["Unnamed: 0", "text"] and not found["problems"]


def test_json_that_describes_is_no_data(tmp_path: Path) -> None:
    described = {"dataset_infos__json": '{"a": 1}', "meta__json": '{\n"license": "mit"\n}', "list__json": "[1, 2]"}
    found = _look(tmp_path, train__jsonl=_lines({"messages": []}), **described)
    assert found["formats"].keys() == {"json", "jsonl", "other"} and found["problems"] == []
    assert misfit(found, Needs("m", "d", 1, columns=(("messages",),))) == ""
    one = _look(tmp_path, a__parquet=PARQUET, about__json='{"license": "mit"}')
    assert misfit(one, Needs("m", "d", 1, columns=(("messages",),))) == ""
    beside = _look(tmp_path, train__jsonl=_lines({"messages": []}), labels__json='[{"label": 1}]', n__csv="a\n1\n")
    assert misfit(beside, Needs("m", "d", 1, columns=(("messages",),))) == ""


def test_of_a_large_file_only_so_much_is_read(tmp_path: Path) -> None:
    many = [{"text": "x" * 1000} for _ in range(1000)]
    for name, content in (
        ("a.json", json.dumps(many)),
        ("a.jsonl", _lines(*many)),
        ("a.csv", "text\n" + "y\n" * 10**5),
    ):
        (tmp_path / name).write_text(content)
        (found,) = look_into(tmp_path, [name], most=50_000)["formats"].values()
        assert 0 < found["rows"] < 60_000 and found["columns"] == ["text"]
        assert look_into(tmp_path, [name], most=50_000)["problems"] == []


@given(st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=80000), min_size=1), min_size=1))
def test_an_array_is_read_as_json_reads_it(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("j") / "a.json"
    path.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    assert [row for _, row in read_rows(path)] == rows


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


def test_what_is_in_a_dataset_is_told_in_a_few_words(tmp_path: Path) -> None:
    found = _look(
        tmp_path, a__jsonl=_lines({"prompt": "x", "completion": "y"}), b__csv="q\n1\n2\n", c__md="c", d__json="[]"
    )
    assert describe(found).split("; ") == [
        "1 csv file with 2 rows of q",
        "1 json file without rows",
        "1 jsonl file with 1 row of prompt+completion",
        "1 other file",
    ]
    assert describe(_look(tmp_path)) == "no files"
