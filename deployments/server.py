"""One real Prefect server of our own: SQLite, loopback, a home under `.slipway/`.

For the demo, `make up`, the tests, and the command line where no server is configured.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from blocks.clusters.errors import SlipwayError

USUAL_PORT = 4200
_PATIENCE_SECONDS = 180


@dataclass(frozen=True)
class Server:
    """A server process.

    Args:
        url: of its API.
        pid, started: which process, and its start time in seconds since 1970, so that no stranger is ever signalled.
    """

    url: str
    pid: int
    started: float
    home: str

    @property
    def ui(self) -> str:
        return self.url.removesuffix("/api")

    def process(self) -> psutil.Process | None:
        return live_process(self.pid, self.started)


def live_process(pid: int, started: float) -> psutil.Process | None:
    """The process, if it is still that one."""
    try:
        process = psutil.Process(pid)
        alive = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        return process if alive and abs(process.create_time() - started) < 1 else None
    except psutil.NoSuchProcess:
        return None


def environment(url: str, home: Path) -> dict[str, str]:
    """What a process needs to talk to the server at `url` and to leave the user's own Prefect home alone."""
    return {
        "PREFECT_API_URL": url,
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "PREFECT_CLI_PROMPT": "false",
        "DO_NOT_TRACK": "1",
    }


def running(home: Path) -> Server | None:
    """The server of this home, if it lives and is healthy."""
    try:
        server = Server(**json.loads(_note(home).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return server if server.process() and healthy(server.url) else None


def start(home: Path, *, port: int | None = None, waiting: Callable[[float], None] = lambda seconds: None) -> Server:
    """Start a server and wait for its health.

    Args:
        home: its Prefect home; made if it is not there.
        port: None for the usual one if it is free, else any free one.
        waiting: called about twice a second with the seconds waited.

    Raises:
        SlipwayError: it ended or did not get healthy; names its log.
    """
    home.mkdir(parents=True, exist_ok=True)
    port = port or free_port(USUAL_PORT)
    log = home / "server.log"
    url = f"http://127.0.0.1:{port}/api"
    with log.open("ab") as out:
        process = psutil.Popen(
            [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **environment(url, home), "PREFECT_API_URL": ""},
        )
    server = Server(url=url, pid=process.pid, started=process.create_time(), home=str(home))
    begun = time.monotonic()
    while not healthy(url):
        waited = time.monotonic() - begun
        if process.poll() is not None or waited > _PATIENCE_SECONDS:
            stop_process(process)
            raise SlipwayError("The Prefect server did not start.", f"Its log says why: {log}.")
        waiting(waited)
        time.sleep(0.4)
    _note(home).write_text(json.dumps(asdict(server)))
    return server


def stop(home: Path) -> bool:
    """Stop the server of this home; say whether one ran."""
    try:
        server = Server(**json.loads(_note(home).read_text()))
    except (OSError, ValueError, TypeError):
        return False
    process = server.process()
    if process:
        stop_process(process)
    _note(home).unlink(missing_ok=True)
    return process is not None


def stop_process(process: psutil.Process, grace_seconds: float = 10) -> None:
    """End a process that leads a group, and the group with it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return
        try:
            process.wait(grace_seconds)
            return
        except psutil.TimeoutExpired:
            continue


def healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:  # noqa: S310 - our own loopback address
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def free_port(wanted: int) -> int:
    """`wanted` if nobody listens there, else any free port."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise SlipwayError("There is no free port on 127.0.0.1.", "End what takes them.")


def _note(home: Path) -> Path:
    return home / "server.json"
