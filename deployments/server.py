"""One real Prefect server of our own: SQLite, loopback, a home under `.slipway/`.

For the demo, `make up`, the tests, and the command line where no server is configured.
"""

import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from blocks.clusters.errors import SlipwayError
from deployments.processes import log_of, noted, remembered, start_noted, stop_noted

USUAL_PORT = 4200
_NAME = "server"
_PATIENCE_SECONDS = 600  # a server that ends is not waited for
SLOW_SECONDS = 20.0
"""What a busy server may need for an answer; where there is none, that is known at once."""


@dataclass(frozen=True)
class Server:
    """A server that answers.

    Args:
        url: of its API.
        home: its Prefect home.
    """

    url: str
    home: Path

    @property
    def ui(self) -> str:
        return self.url.removesuffix("/api")

    def environment(self) -> dict[str, str]:
        """What a process needs to talk to it and to leave the user's own Prefect home alone."""
        return {**_environment(self.home), "PREFECT_API_URL": self.url}


def running(home: Path) -> Server | None:
    """The server of this home, if it lives and is healthy."""
    note = noted(home, _NAME)
    return Server(note["url"], home) if note and healthy(note["url"]) else None


def start(home: Path, *, port: int | None = None, waiting: Callable[[float], None] = lambda seconds: None) -> Server:
    """Start a server and wait for its health.

    Args:
        home: its Prefect home; made if it is not there.
        port: None for the one of a server of this home that was killed, so that whoever talked to it goes on, else the
            usual one; if that is taken, any free one.
        waiting: called about twice a second with the seconds waited.

    Raises:
        SlipwayError: it ended or did not get healthy; names its log.
    """
    port = port or free_port(_port_before(home) or USUAL_PORT)
    url = f"http://127.0.0.1:{port}/api"
    argv = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    # Unless it is told the address, the UI asks for the API at the usual port, whatever the server listens on.
    env = {**_environment(home), "PREFECT_API_URL": "", "PREFECT_SERVER_UI_API_URL": url}
    begun = time.monotonic()
    try:
        process = start_noted(home, _NAME, argv, env, url=url)
        while not healthy(url):
            waited = time.monotonic() - begun
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE or waited > _PATIENCE_SECONDS:
                raise SlipwayError("The Prefect server did not start.", f"Its log says why: {log_of(home, _NAME)}.")
            waiting(waited)
            time.sleep(0.4)
    except BaseException:  # told to end, too: nobody would know of it
        stop(home)
        raise
    return Server(url, home)


def _port_before(home: Path) -> int | None:
    note = remembered(home, _NAME)
    return urlsplit(str(note.get("url"))).port if note else None


def stop(home: Path) -> bool:
    """Stop the server of this home; say whether one ran."""
    return stop_noted(home, _NAME)


def healthy(url: str) -> bool:
    """Whether a server answers that it is well."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=SLOW_SECONDS) as answer:  # noqa: S310 - our own loopback address
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def free_port(wanted: int) -> int:
    """`wanted` if nobody listens there, else any free port, which nobody else is given within a minute."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found = probe.getsockname()
            if not port:
                _keep(probe, found)
            return int(found[1])
    raise SlipwayError("There is no free port on 127.0.0.1.", "End what takes them.")


def _keep(probe: socket.socket, address: tuple[str, int]) -> None:
    """Leave a port with a connection that was closed at its end a moment ago: the system gives it to nobody who asks
    for any, and a server that names it can listen there."""
    probe.listen(1)
    with socket.create_connection(address):
        probe.accept()[0].close()


def _environment(home: Path) -> dict[str, str]:
    return {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "PREFECT_CLI_PROMPT": "false",
        "DO_NOT_TRACK": "1",
    }
