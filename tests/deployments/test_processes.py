"""Processes that are started for later commands: none is left that nobody knows of."""

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from deployments.processes import noted, remembered, start_noted, stop_noted
from deployments.server import free_port
from deployments.stack import PROJECT

SLOW_TO_END = """
import os, signal, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
if os.fork() == 0:
    def end(*_):
        time.sleep(1)
        (folder / "ended").touch()
        os._exit(0)
    signal.signal(signal.SIGTERM, end)
    (folder / "up").touch()
    while True:
        time.sleep(1)
time.sleep(600)
"""


def test_what_is_stopped_is_gone_with_all_that_it_started(tmp_path: Path) -> None:
    process = start_noted(tmp_path, "one", [sys.executable, "-c", SLOW_TO_END, str(tmp_path)], {})
    note = noted(tmp_path, "one")
    assert note is not None and note["pid"] == process.pid
    wait_for(tmp_path / "up")

    assert stop_noted(tmp_path, "one", grace_seconds=120)

    assert (tmp_path / "ended").exists()
    assert noted(tmp_path, "one") is None and not stop_noted(tmp_path, "one")


INTERRUPTED = """
import os, signal
from pathlib import Path
from deployments import processes
processes.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGINT)
processes.start_noted(Path({folder!r}), "one", ["sleep", "600"], {{"STARTED_IN": {folder!r}}})
"""


def test_what_is_interrupted_before_its_note_is_written_leaves_no_process(tmp_path: Path) -> None:
    code = INTERRUPTED.format(folder=str(tmp_path))
    starter = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, stderr=subprocess.PIPE)
    assert starter.returncode == -signal.SIGINT, starter.stderr
    assert [process for process in psutil.process_iter() if _environ(process).get("STARTED_IN") == str(tmp_path)] == []


def test_a_free_port_is_for_whoever_names_it() -> None:
    port = free_port(0)
    with socket.socket() as somebody, pytest.raises(OSError, match=os.strerror(errno.EADDRINUSE)):
        somebody.bind(("127.0.0.1", port))  # what the system checks before it gives a port to who asks for any
    with socket.create_server(("127.0.0.1", port)):
        pass


def wait_for(path: Path) -> None:
    until = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.05)


def _environ(process: psutil.Process) -> dict[str, str]:
    try:
        return dict(process.environ())
    except psutil.Error:
        return {}


def test_a_process_that_was_killed_is_remembered_and_one_that_was_stopped_is_not(tmp_path: Path) -> None:
    process = start_noted(tmp_path, "one", [sys.executable, "-c", "import time; time.sleep(600)"], {}, url="u")
    process.kill()
    process.wait()
    assert noted(tmp_path, "one") is None
    note = remembered(tmp_path, "one")
    assert note is not None and note["url"] == "u"
    stop_noted(tmp_path, "one")
    assert remembered(tmp_path, "one") is None
    for text in ("", "[]", "3", "{}"):
        (tmp_path / "one.json").write_text(text)
        assert remembered(tmp_path, "one") is None and noted(tmp_path, "one") is None
