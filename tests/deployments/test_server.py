"""The Prefect server of this machine, without waiting for one to be healthy."""

import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from deployments.processes import noted
from deployments.server import free_port, healthy, start, stop
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


def test_a_server_that_is_slow_to_answer_is_there_and_one_that_refuses_is_not() -> None:
    class Slow(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(5)
            self.send_response(200)
            self.end_headers()

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/api"
    assert healthy(url)
    server.shutdown()
    server.server_close()
    assert not healthy(url)


def test_a_server_that_was_killed_comes_back_where_it_was(tmp_path: Path) -> None:
    first = start(tmp_path, port=free_port(0))
    note = noted(tmp_path, "server")
    assert note is not None
    os.killpg(note["pid"], signal.SIGKILL)
    port = urlsplit(first.url).port or 0
    while noted(tmp_path, "server") or free_port(port) != port:  # what it started ends a moment later
        time.sleep(0.05)
    try:
        assert start(tmp_path).url == first.url
    finally:
        stop(tmp_path)
