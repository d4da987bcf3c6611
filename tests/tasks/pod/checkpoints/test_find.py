"""What is a step, in which order, and what is not read again."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.pod.checkpoints.find import find
from tasks.pod.checkpoints.fingerprint import fingerprint
from tasks.pod.checkpoints.judge import judge
from tasks.pod.checkpoints.verdict import Verdict
from tasks.pod.errors import BadInputError, NotThereError
from tests.tasks.pod.checkpoints.writers import write_tiny


def test_steps_are_ordered_by_number_not_by_name_or_time(tmp_path: Path) -> None:
    for step in (100, 9, 99):
        write_tiny(tmp_path / "checkpoints" / f"step_{step}", step)
    report = find(tmp_path)
    assert [c.step for c in report.checkpoints] == [9, 99, 100]
    assert report.latest_complete == "checkpoints/step_100"


def test_a_torn_newest_step_is_not_the_latest(tmp_path: Path) -> None:
    write_tiny(tmp_path / "step_1", 1)
    (write_tiny(tmp_path / "step_2", 2) / "complete.json").unlink()
    report = find(tmp_path)
    assert report.latest_complete == "step_1"
    assert [c.verdict for c in report.checkpoints] == [Verdict.COMPLETE, Verdict.INCOMPLETE]


@pytest.mark.parametrize(
    "name",
    [
        "step_20_backup",
        "tmp-step_20",
        "step_20.tmp",
        "old_step_20",
        ".step_20",
        "step_20-unfinished",
        "step_2a",
        "20.orbax-checkpoint-tmp",
    ],
)
def test_other_names_are_no_steps(tmp_path: Path, name: str) -> None:
    write_tiny(tmp_path / "step_10", 10)
    write_tiny(tmp_path / name, 20)
    write_tiny(tmp_path / name / "global_step20", 20)
    assert [c.path for c in find(tmp_path).checkpoints] == ["step_10"]


@pytest.mark.parametrize("name", ["step_", "latest", "step_-1", "step_٣", "step_1 (copy)", "step"])
def test_what_only_begins_like_a_step_is_none(tmp_path: Path, name: str) -> None:
    write_tiny(tmp_path / name, 20)
    assert [c.path for c in find(tmp_path).checkpoints] == []


def test_a_link_to_a_step_is_no_step_unless_it_is_called_so(tmp_path: Path) -> None:
    write_tiny(tmp_path / "a" / "step_10", 10)
    (tmp_path / "a" / "latest").symlink_to("step_10")
    (tmp_path / "a" / "step_7").symlink_to("nowhere")
    assert [c.path for c in find(tmp_path).checkpoints] == ["a/step_10"]


def test_links_inside_a_step_are_not_followed(tmp_path: Path) -> None:
    step = write_tiny(tmp_path / "step_10", 10)
    (step / "model.safetensors").rename(tmp_path / "elsewhere")
    (step / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    found = judge(step)
    assert (found.verdict, "link" in found.why) == (Verdict.UNKNOWN, True)


def test_a_directory_that_is_itself_a_step_is_found(tmp_path: Path) -> None:
    report = find(write_tiny(tmp_path / "step_10", 10))
    assert (report.latest_complete, report.checkpoints[0].step) == (".", 10)


def test_strangers_called_like_steps_are_left_out(tmp_path: Path) -> None:
    write_tiny(tmp_path / "checkpoints" / "step_10", 10)
    (tmp_path / "samples" / "step_20").mkdir(parents=True)
    (tmp_path / "samples" / "step_20" / "image.png").write_bytes(b"x")
    (tmp_path / "checkpoints" / "step_30").mkdir()
    (tmp_path / "checkpoints" / "step_30" / "what").write_bytes(b"x")
    report = find(tmp_path)
    assert [(c.path, c.format, c.verdict) for c in report.checkpoints[1:]] == [
        ("checkpoints/step_30", "unrecognised", Verdict.UNKNOWN)
    ]


def test_what_is_known_and_unchanged_is_not_read_again(tmp_path: Path) -> None:
    step = write_tiny(tmp_path / "step_10", 10)
    marked = replace(find(tmp_path).checkpoints[0], why="as before")
    assert find(tmp_path, known={"step_10": marked}).checkpoints[0].why == "as before"
    os.utime(step / "state.json", ns=(1, 1))
    assert find(tmp_path, known={"step_10": marked}).checkpoints[0].why != "as before"


def test_the_fingerprint_follows_the_bytes_and_not_the_place(tmp_path: Path) -> None:
    step = write_tiny(tmp_path / "step_10", 10)
    first = fingerprint(step)
    (tmp_path / "held" / "step_10").mkdir(parents=True)
    for file in step.iterdir():
        (tmp_path / "held" / "step_10" / file.name).hardlink_to(file)
    assert fingerprint(tmp_path / "held" / "step_10") == first
    times = (step / "model.safetensors").stat().st_mtime_ns
    content = bytearray((step / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (step / "model.safetensors").write_bytes(content)
    os.utime(step / "model.safetensors", ns=(times, times))
    assert fingerprint(step) != first
    assert fingerprint(tmp_path / "held" / "step_10") == fingerprint(step)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no checkpoint format"):
        find(tmp_path, format="pickles")
    with pytest.raises(NotThereError):
        find(tmp_path / "absent")
    with pytest.raises(NotThereError):
        judge(tmp_path / "absent")


def test_a_directory_without_checkpoints_has_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "logs").mkdir()
    assert find(tmp_path).checkpoints == ()


def test_an_unreadable_file_is_unknown_not_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = write_tiny(tmp_path / "step_10", 10)
    (step / "model.safetensors").chmod(0)
    if os.access(step / "model.safetensors", os.R_OK):
        pytest.skip("this user may read everything")
    assert judge(step).verdict is Verdict.UNKNOWN
