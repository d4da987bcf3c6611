"""Of every format: no cut, no missing file, no part of a first or second save is ever called complete."""

import itertools
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tasks.pod.checkpoints.judge import judge
from tasks.pod.checkpoints.verdict import Verdict
from tests.tasks.pod.checkpoints.synthetic import KINDS, Files, Kind

EVERY = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
_MOST_CUTS = 40


def publish(kind: Kind, step: Path, clock: "itertools.count[int]") -> None:
    """What the writer does at its end beside the step: NeMo takes its mark away, others name the step."""
    (step.parent / f"{step.name}-unfinished").unlink(missing_ok=True)
    if kind.last:
        write(step.parent, [kind.last], clock)


def begin(kind: Kind, step: Path) -> None:
    step.mkdir(parents=True, exist_ok=True)
    if kind.format == "nemo":
        (step.parent / f"{step.name}-unfinished").touch()


def write(step: Path, files: Iterable[tuple[str, bytes]], clock: "itertools.count[int]") -> None:
    for name, content in files:
        (step / name).parent.mkdir(parents=True, exist_ok=True)
        (step / name).write_bytes(content)
        now = next(clock) * 1_000_000_000
        os.utime(step / name, ns=(now, now))


def saved(kind: Kind, to: Path) -> tuple[Path, Files]:
    step, files = to / kind.directory, kind.files(1)
    clock = itertools.count(1_000_000)
    begin(kind, step)
    write(step, files, clock)
    publish(kind, step, clock)
    return step, files


def cuts(size: int) -> list[int]:
    return sorted({*range(0, size, max(1, size // _MOST_CUTS)), size - 1})


@EVERY
def test_a_whole_step_is_complete(kind: Kind, tmp_path: Path) -> None:
    step, files = saved(kind, tmp_path)
    found = judge(step)
    assert found.verdict is Verdict.COMPLETE, found.why
    assert found.format == kind.format
    assert found.bytes == sum(len(content) for _, content in files)
    assert found.step == (None if kind.format == "accelerate" else 7)
    assert found.resumable is (kind.format != "dcp-hf")
    deep = judge(step, deep=True)
    assert deep.verdict is (Verdict.UNKNOWN if kind.format == "orbax" else Verdict.COMPLETE), deep.why


@EVERY
def test_no_cut_is_complete(kind: Kind, tmp_path: Path) -> None:
    step, files = saved(kind, tmp_path)
    for name, content in files:
        if name in kind.free or not content:
            continue
        times = (step / name).stat().st_mtime_ns
        for length in cuts(len(content)):
            if name.endswith((".yaml", "latest")) and length:
                continue
            (step / name).write_bytes(content[:length])
            os.utime(step / name, ns=(times, times))
            found = judge(step)
            assert not found.complete, (name, length, found.why)
        (step / name).write_bytes(content)
        os.utime(step / name, ns=(times, times))
    assert judge(step).complete


@EVERY
def test_no_step_that_misses_a_file_is_complete(kind: Kind, tmp_path: Path) -> None:
    step, files = saved(kind, tmp_path)
    for name, content in files:
        if name in kind.free - {"commit_success.txt"}:
            continue
        times = (step / name).stat().st_mtime_ns
        (step / name).unlink()
        found = judge(step)
        assert not found.complete, (name, found.why)
        (step / name).write_bytes(content)
        os.utime(step / name, ns=(times, times))
    assert judge(step).complete


@EVERY
def test_no_part_of_a_first_save_is_complete(kind: Kind, tmp_path: Path) -> None:
    files = kind.files(1)
    for count in range(len(files)):
        step = tmp_path / str(count) / kind.directory
        begin(kind, step)
        write(step, files[:count], itertools.count(1_000_000))
        assert not judge(step).complete, files[count][0]
        name, content = files[count]
        if len(content) > 1 and not name.endswith(".yaml"):
            write(step, [(name, content[: len(content) // 2])], itertools.count(1_000_100))
            assert not judge(step).complete or name in kind.free, (name, judge(step).why)


@EVERY
def test_no_part_of_a_second_save_is_complete(kind: Kind, tmp_path: Path) -> None:
    if kind.format == "orbax":
        pytest.skip("orbax writes under another name and renames")
    second = [pair for pair in kind.files(2) if pair[0] not in kind.timeless]
    for count in range(1, len(second) + 1):
        step, _ = saved(kind, tmp_path / str(count))
        if kind.format == "tiny":
            (step / "complete.json").unlink()
        clock = itertools.count(2_000_000)
        begin(kind, step)
        write(step, second[:count], clock)
        if count == len(second):
            publish(kind, step, clock)
        harmless = all(name in kind.free for name, _ in second[:count]) or _same(step, kind.files(1))
        whole = count == len(second)
        found = judge(step)
        assert found.complete is whole or (not whole and harmless), (second[count - 1][0], found.why)


def _same(step: Path, files: Files) -> bool:
    return all((step / name).exists() and (step / name).read_bytes() == content for name, content in files)


@EVERY
def test_a_file_that_a_crashed_host_left_as_zeros_is_not_complete(kind: Kind, tmp_path: Path) -> None:
    step, files = saved(kind, tmp_path)
    for name, content in files:
        if name in kind.free or not content or name.endswith((".yaml", "latest")):
            continue
        times = (step / name).stat().st_mtime_ns
        (step / name).write_bytes(bytes(len(content)))
        os.utime(step / name, ns=(times, times))
        assert not judge(step).complete, name
        (step / name).write_bytes(content)
        os.utime(step / name, ns=(times, times))


@EVERY
def test_deep_finds_a_changed_byte_where_the_format_can(kind: Kind, tmp_path: Path) -> None:
    if kind.format in ("orbax", "dcp-hf"):
        pytest.skip("nothing in it tells")
    step, files = saved(kind, tmp_path)
    name, content = next(
        pair for pair in files if pair[0].endswith((".distcp", ".pt", ".bin")) or kind.format == "tiny"
    )
    times = (step / name).stat().st_mtime_ns
    middle = content.index(b"data/0") + 20 if b"data/0" in content else len(content) - 1
    (step / name).write_bytes(content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :])
    os.utime(step / name, ns=(times, times))
    found = judge(step, deep=True)
    assert not found.complete, found.why
