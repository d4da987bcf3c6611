"""The Prefect server that a command's flow runs against: the configured one, the one of `make up`, or one of its own.

Sets the environment and imports no Prefect: Prefect reads its settings when it is first imported.
"""

import fcntl
import os
import signal
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from blocks.clusters.errors import SlipwayError, UsageError
from deployments import server
from flows.cli.show import say, waiting

_DELIVERY_SECONDS = 10
_NARRATION = "flows.cli.narration.Narration"
_LOGGING = {
    "PREFECT_LOGGING_HANDLERS_CONSOLE_CLASS": _NARRATION,
    "PREFECT_LOGGING_LEVEL": "INFO",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}


class ServerGoneError(SlipwayError):
    """The Prefect server of a flow does not answer any more."""


@contextmanager
def prefect_server(folder: Path) -> Iterator[None]:
    """Have a Prefect server for the block, and this process talk to it.

    Args:
        folder: the one of slipway.toml; servers of ours live in its `.slipway/`.

    Raises:
        SlipwayError: ours did not start; names its log.
    """
    os.environ.update(_LOGGING)
    if _use_running(folder):
        yield
        return
    if configured := configured_server():
        say(f"The Prefect server {configured} does not answer: this command starts one of its own.")
    with _own(folder / ".slipway" / "prefect-cli") as own:
        os.environ.update(own.environment())
        yield


def use_running_server(folder: Path) -> None:
    """Have this process talk to the configured server or the one of `make up`.

    Raises:
        UsageError: there is none: what is saved in one that ends with the command would be lost.
    """
    if not _use_running(folder):
        url = configured_server()
        raise UsageError(
            f"There is no Prefect server to save them in{f': {url} does not answer' if url else ''}.",
            "Run `make up`, or set PREFECT_API_URL.",
        )


def configured_server() -> str | None:
    """The API address that Prefect's own settings name: environment, prefect.toml, then the active profile."""
    if url := os.environ.get("PREFECT_API_URL"):
        return url.rstrip("/")
    url = _read(Path("prefect.toml")).get("api", {}).get("url")
    if not url:
        home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
        profiles = _read(Path(os.environ.get("PREFECT_PROFILES_PATH", home / "profiles.toml")))
        name = os.environ.get("PREFECT_PROFILE", profiles.get("active"))
        url = profiles.get("profiles", {}).get(name, {}).get("PREFECT_API_URL")
    return str(url).rstrip("/") if url else None


def _use_running(folder: Path) -> bool:
    url = configured_server()
    if url and _answers(url):
        os.environ["PREFECT_API_URL"] = url
        return True
    embedded = server.running(folder / ".slipway" / "prefect")
    os.environ.update(embedded.environment() if embedded else {})
    return embedded is not None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _answers(url: str) -> bool:
    try:
        return server.healthy(url) or _refuses(url)
    except ValueError:  # no address at all
        return False


def _refuses(url: str) -> bool:
    """It is there and wants a key, which Prefect has and we do not look for."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=server.SLOW_SECONDS):  # noqa: S310 - the address that the user configured
            return True
    except urllib.error.HTTPError as error:
        return error.code in (401, 403)
    except OSError:
        return False


@contextmanager
def _own(home: Path) -> Iterator[server.Server]:
    """A server for as long as any command of this project uses it: the last one stops it."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "users.lock").open("a") as users, _until_terminated():
        text = "waiting for a Prefect server of this command's own (none is configured or running)"
        with waiting(text), _turn(home):
            own = server.running(home) or server.start(home, port=server.free_port(0))
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield own
        finally:
            _deliver()
            with _turn(home):
                try:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    server.stop(home)
                except BlockingIOError:  # another command still uses it
                    pass


def _deliver() -> None:
    """Send what Prefect's threads still have in hand: without a server, they would try for more than a minute."""
    if "prefect" in sys.modules:
        from prefect.events.worker import EventsWorker
        from prefect.logging.handlers import APILogWorker

        for worker in (APILogWorker, EventsWorker):
            worker.drain_all(timeout=_DELIVERY_SECONDS)


@contextmanager
def _turn(home: Path) -> Iterator[None]:
    with (home / "turn.lock").open("a") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


@contextmanager
def _until_terminated() -> Iterator[None]:
    """Let SIGTERM end the block the orderly way."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
