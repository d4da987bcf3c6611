"""Metrics files as trainers write them, and as nobody should."""

import json
import os
from pathlib import Path

import pytest

from tasks.pod.metrics import by_step, last_metrics, read_metrics


def test_only_whole_lines_are_read_and_the_rest_later(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1, "loss": 2.0}\n{"step": 2, "lo')
    rows, offset = read_metrics(path)
    assert rows == [{"step": 1, "loss": 2.0}]
    with path.open("ab") as file:
        file.write(b'ss": 1.5}\n')
    assert read_metrics(path, offset) == ([{"step": 2, "loss": 1.5}], path.stat().st_size)
    path.write_bytes(b'{"step": 1, "loss": 9.0}\n')
    assert read_metrics(path, offset + 100)[0] == [{"step": 1, "loss": 9.0}]


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (
            b'{"step": 3, "loss": NaN, "x": -Infinity, "y": 1e999}',
            {"step": 3, "loss": None, "x": None, "y": None, "not_finite": ["loss", "x", "y"]},
        ),
        (b'{"step": 3, "loss": null, "h": [NaN], "t": {"a": 1}}', {"step": 3}),
        (b'{"step": 3, "loss": "high", "note": "high"}', {"step": 3, "note": "high"}),
        (b'{"step": 3, "loss": true, "not_finite": 5}', {"step": 3}),
        (b'{"step": 3, "loss": ' + b"9" * 400 + b"}", {"step": 3, "loss": None, "not_finite": ["loss"]}),
        (b'{"step": 3, "loss": ' + b"9" * 30 + b"}", {"step": 3, "loss": 1e30}),
        (b'{"step": 3.0, "a\\ud800": "\\udfff"}', {"step": 3, "a?": "?"}),
        (b'{"current_steps": 3, "loss/mean": 1}', {"step": 3, "loss": 1, "current_steps": 3, "loss/mean": 1}),
        (b'{"step": true}', None),
        (b'{"step": -1}', None),
        (b'{"step": 1.5}', None),
        (b'{"step": NaN}', None),
        (b'{"step": ' + b"9" * 5000 + b"}", None),
        (b"[" * 100_000, None),
        (b"\x00\xff\xfe\x80", None),
        (b"[3]", None),
        (b"", None),
    ],
)
def test_what_a_line_comes_to(tmp_path: Path, line: bytes, row: dict[str, object] | None) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(line + b"\n" + b'{"step": 4}\n')
    assert read_metrics(path) == ([r for r in (row, {"step": 4}) if r], path.stat().st_size)
    json.dumps(row, allow_nan=False)


def test_a_line_without_an_end_is_read_once_and_what_follows_it_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"x" * (5 * 2**20))
    rows, offset = read_metrics(path)
    assert rows == [] and offset == path.stat().st_size
    with path.open("ab") as file:
        file.write(b'\n{"step": 4}\n')
    assert read_metrics(path, offset)[0] == [{"step": 4}]
    assert last_metrics(path) == {"step": 4}


def test_what_is_no_file_has_no_metrics_and_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "file").write_text("")
    for name in ("pipe", "folder", "zero", "circle", "file/below", "none"):
        assert read_metrics(tmp_path / name) == ([], 0)
        assert last_metrics(tmp_path / name) is None


def test_a_null_does_not_erase_what_an_earlier_line_of_the_step_said(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 2.0, "val": null}\n{"step": 1, "loss": null, "val": 3.0}\n')
    assert by_step(read_metrics(path)[0]) == {1: {"step": 1, "loss": 2.0, "val": 3.0}}
