"""The Prefect server of this machine, without waiting for one to be healthy."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from deployments.stack import PROJECT


def servers(home: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("PREFECT_HOME") == str(home):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_a_start_that_is_interrupted_leaves_no_server(tmp_path: Path) -> None:
    starts = f"from pathlib import Path; from deployments.server import start; start(Path({str(tmp_path)!r}), port=1)"
    starter = subprocess.Popen([sys.executable, "-c", starts], cwd=PROJECT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 180
    while not list(tmp_path.glob("*.json")):  # its note
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert servers(tmp_path)
    starter.send_signal(signal.SIGINT)
    starter.wait(180)
    assert servers(tmp_path) == []
