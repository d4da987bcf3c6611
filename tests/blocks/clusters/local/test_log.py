"""The log of a local job, read on from where it was, however long it is."""

import tracemalloc
from pathlib import Path

import pytest

from blocks.clusters.local.log import LogFile

LONG = 64 * 2**20
FEW = 4 * 2**20


def bytes_read() -> int:
    """How many this process has read so far, from the page cache too."""
    told = Path("/proc/self/io")
    if not told.exists():
        pytest.skip("only Linux counts them")
    return int(told.read_text().split()[1])


def test_a_long_log_is_read_once_and_its_news_alone_after_that(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        for _ in range(LONG // 1024):
            file.write(b"x" * 1023 + b"\n")
    lines = LogFile(log, tmp_path / "times")
    tracemalloc.start()
    assert sum(1 for _ in lines) == LONG // 1024
    assert tracemalloc.get_traced_memory()[1] < FEW
    tracemalloc.stop()
    with log.open("ab") as file:
        file.write(b"news\n")
    before = bytes_read()
    assert list(lines) == ["news"]
    assert list(LogFile(log, tmp_path / "times", last=2)) == ["x" * 1023, "news"]
    assert bytes_read() - before < FEW


def test_a_line_without_end_is_read_in_pieces(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"y" * (3 * 2**20) + b"\nlast")
    found = list(LogFile(log, tmp_path / "times"))
    assert ("".join(found[:-1]), found[-1]) == ("y" * (3 * 2**20), "last")
    assert max(map(len, found)) == 2**20
    assert list(LogFile(log, tmp_path / "times", last=1)) == ["last"]


def test_more_lines_than_there_are_is_all_of_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert list(LogFile(log, tmp_path / "times", last=3)) == []
    for text, last in (("", 3), ("one", 3), ("one\ntwo\n", 2), ("one\n\ntwo\n", 3)):
        log.write_text(text)
        assert list(LogFile(log, tmp_path / "times", last=last)) == text.splitlines()
    assert list(LogFile(log, tmp_path / "times", last=2)) == ["", "two"]
