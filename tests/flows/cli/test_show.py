"""What is printed where there is little room, another alphabet, or nobody to print to."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from flows.cli.app import app
from flows.cli.show import show_table, some_of
from tests.flows.cli.conftest import REPOSITORY

HEAD = ("run", "reason", "state", "why")
ROWS = [("a-run-with-a-long-name", "", "completed", "because of a long and winding road"), ("b", "", "lost", "")]


@pytest.mark.parametrize("columns", [1, 20, 60, 80])
def test_names_are_whole_however_narrow_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    show_table(HEAD, ROWS, empty="", wraps="why")
    out = capsys.readouterr().out
    assert "a-run-with-a-long-name   " in out and "completed" in out and "…" not in out
    assert ("reason" in out) == (columns == 80)
    assert "".join("".join(line[37:].split()) for line in out.splitlines()[2:]).find("winding") >= 0


def test_long_lists_of_names_are_cut() -> None:
    assert some_of(["a", "b"]) == "a, b"
    assert some_of(list("abcde")) == "a, b, c, d, e"
    assert some_of(list("abcdef")) == "a, b, c, d and 2 more"


def slipway(folder: Path, line: str, **env: str) -> "subprocess.CompletedProcess[bytes]":
    settings = folder / "slipway.toml"
    settings.write_text("[clusters.local]\nroot = 'here'\n")
    command = f'"{sys.executable}" -m flows.cli.app {line}'
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin", **env},
        capture_output=True,
    )


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_a_locale_that_can_not_say_a_character_ends_nothing(tmp_path: Path) -> None:
    told = slipway(tmp_path, "checkpoints ./städte", **ASCII)
    assert told.returncode == 1 and b"error: " in told.stderr and b"Traceback" not in told.stderr
    (tmp_path / "städte").mkdir()
    shown = slipway(tmp_path, "checkpoints ./städte -o json", **ASCII)
    assert shown.returncode == 0 and json.loads(shown.stdout)["checkpoints"] == []


@pytest.mark.parametrize("line", ["volumes list -o json >&-", "volumes list <&-", "volumes list >&- 2>&-"])
def test_closed_streams_are_no_failure(tmp_path: Path, line: str) -> None:
    done = slipway(tmp_path, line)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr


def test_nobody_to_confirm_is_said(tmp_path: Path) -> None:
    assert slipway(tmp_path, "volumes create v").returncode == 0
    told = slipway(tmp_path, "volumes delete v <&-")
    assert told.returncode == 2 and b"Say --yes" in told.stderr


STREAMS = {"runs logs", "volumes cat", "volumes ssh"}
"""What they print is somebody else's."""


def commands(group: Any, *path: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *path, name)
        else:
            yield " ".join((*path, name)), command


def test_every_command_can_answer_in_json() -> None:
    found = dict(commands(typer.main.get_command(app)))
    assert len(found) > 35
    for name, command in found.items():
        options = {option for parameter in command.params for option in parameter.opts}
        assert ("-o" in options) == (name not in STREAMS), name


def test_a_directory_that_was_removed_under_one_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    done = slipway(
        tmp_path / "gone", "--version >/dev/null; rm -r ../gone; " + f'"{sys.executable}" -m flows.cli.app runs list'
    )
    assert done.returncode == 1
    assert done.stderr == b"error: The directory that you are in was removed. Go to another one.\n"
