"""Programs in a pod's container through the API server's exec, with both ends of their pipes.

The fifth version of its protocol can end standard input, which those before could not: a program that reads to the
end needs that.
"""

import contextlib
import json
import os
import signal
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlencode

from blocks.clusters.errors import SlipwayError
from blocks.clusters.kubernetes.api import Api, ApiError
from blocks.clusters.kubernetes.credentials import CredentialsError
from blocks.clusters.kubernetes.place import Place

if TYPE_CHECKING:
    from websocket import WebSocket

_STDIN, _STDOUT, _STDERR, _STATUS, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_PROTOCOL = "v5.channel.k8s.io"
_CHUNK = 2**16
_ERRORS_KEPT = 2**18


class BrokenExecError(SlipwayError):
    """The connection broke before the program's end was known, or could not be made."""


class TooLongError(SlipwayError):
    """The program took longer than it was given."""


class Process:
    """A program in a container. Its standard output and input are pipes; its standard error is kept.

    Raises:
        BrokenExecError: the connection could not be made.
    """

    def __init__(self, api: Api, place: Place, pod: str, container: str, command: Sequence[str]) -> None:
        self._socket = _connect(api, place, pod, container, command)
        self._errors = bytearray()
        self._status: dict[str, Any] | None = None
        self._broken = ""
        reading, self._writing = os.pipe()
        self.stdout: IO[bytes] = os.fdopen(reading, "rb", buffering=_CHUNK)
        self.stdin: IO[bytes] = _Stdin(self._socket)  # type: ignore[assignment]
        self._reader = threading.Thread(target=self._read, name=f"exec in {pod}", daemon=True)
        self._reader.start()

    def wait(self, timeout_seconds: float | None = None) -> tuple[int, bytes]:
        """Wait for the program's end and return its exit code and what it said on standard error.

        Raises:
            BrokenExecError: the connection broke, or the time is over.
        """
        self._reader.join(timeout_seconds)
        if self._reader.is_alive():
            raise TooLongError(f"No end after {timeout_seconds:g} seconds.", "Try again.")
        if self._status is None:
            raise BrokenExecError(f"The connection to the pod broke{self._broken}.", "Try again.")
        return _exit_code(self._status), bytes(self._errors)

    def close(self) -> None:
        """Let go of it. A program that still runs finds its pipes closed."""
        with contextlib.suppress(Exception):
            self._socket.close()
        with contextlib.suppress(OSError):
            self.stdout.close()
        self._reader.join(5)

    def _read(self) -> None:
        import websocket

        try:
            while True:
                data = self._socket.recv()
                if not data:
                    break
                frame = data if isinstance(data, bytes) else data.encode()
                self._take(frame[0], frame[1:])
        except (websocket.WebSocketException, OSError, ssl.SSLError) as error:
            self._broken = f": {error}"
        finally:
            with contextlib.suppress(OSError):
                os.close(self._writing)

    def _take(self, channel: int, content: bytes) -> None:
        if channel == _STDOUT:
            view = memoryview(content)
            with contextlib.suppress(BrokenPipeError):  # nobody reads any more
                while view:
                    view = view[os.write(self._writing, view) :]
        elif channel == _STDERR:
            self._errors += content
            del self._errors[:-_ERRORS_KEPT]
        elif channel == _STATUS:
            self._status = json.loads(content)


class _Stdin:
    """The writing end of a program's standard input."""

    def __init__(self, socket: "WebSocket") -> None:
        self._socket = socket
        self.closed = False

    def write(self, content: bytes) -> int:
        import websocket

        view = memoryview(content)
        try:
            while view:
                self._socket.send_binary(bytes([_STDIN]) + bytes(view[:_CHUNK]))
                view = view[_CHUNK:]
        except (websocket.WebSocketException, OSError) as error:
            raise BrokenPipeError(str(error)) from error
        return len(content)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with contextlib.suppress(Exception):
                self._socket.send_binary(bytes([_CLOSE, _STDIN]))


def execute(
    api: Api, place: Place, pod: str, container: str, command: Sequence[str], stdin: bytes, timeout_seconds: float
) -> tuple[int, bytes, bytes]:
    """Run a program to its end: its exit code, standard output and standard error.

    Raises:
        BrokenExecError: the connection could not be made, or broke; the program may have run.
        ApiError: it is not for this user.
    """
    until = time.monotonic() + timeout_seconds
    process = Process(api, place, pod, container, command)
    timer = threading.Timer(timeout_seconds, process.close)
    timer.daemon = True
    timer.start()
    try:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(stdin)
            process.stdin.close()
        out = process.stdout.read()
        code, errors = process.wait(max(1, until - time.monotonic()))
    except ValueError as error:  # the timer closed it under our hands
        raise TooLongError(f"No end after {timeout_seconds:g} seconds.", "Try again.") from error
    finally:
        timer.cancel()
        process.close()
    return code, out, errors


class KubernetesTerminal:
    """A person's program in a pod: with a terminal of its own, or with pipes.

    Args:
        size: rows and columns of the terminal; None for pipes.
        lives: whether the pod still does.

    Raises:
        BrokenExecError: the connection could not be made.
    """

    def __init__(
        self,
        api: Api,
        place: Place,
        pod: str,
        command: Sequence[str],
        size: tuple[int, int] | None,
        lives: Callable[[], bool],
    ) -> None:
        self._lives = lives
        self._socket = _connect(api, place, pod, "main", command, tty=size is not None)
        self._pod = pod
        self._sending = threading.Lock()
        self._status: dict[str, Any] | None = None
        if size is not None:
            self.resize(*size)

    def read(self) -> tuple[int, bytes] | None:
        import websocket

        while True:
            try:
                data = self._socket.recv()
            except (websocket.WebSocketException, OSError, ssl.SSLError):
                return None
            if not data:
                return None
            frame = data if isinstance(data, bytes) else data.encode()
            if frame[0] == _STATUS:
                self._status = json.loads(frame[1:])
            elif frame[0] in (_STDOUT, _STDERR) and len(frame) > 1:
                return frame[0], frame[1:]

    def write(self, content: bytes) -> None:
        for at in range(0, len(content), _CHUNK):
            self._send(bytes([_STDIN]) + content[at : at + _CHUNK])

    def end_input(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._send(bytes([_CLOSE, _STDIN]))

    def resize(self, rows: int, columns: int) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._send(bytes([_RESIZE]) + json.dumps({"Width": columns, "Height": rows}).encode())

    def wait(self) -> int:
        if self._status is None or (_exit_code(self._status) == 128 + signal.SIGKILL and self._goes()):
            raise SlipwayError(
                f"The session {self._pod} ended, or the connection to it did.",
                "Open it again; idle ones end themselves.",
            )
        return _exit_code(self._status)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._socket.close()

    def _goes(self) -> bool:
        """Whether the pod ends: what runs in it is killed a moment before that shows."""
        for _ in range(10):
            if not self._lives():
                return True
            time.sleep(0.5)
        return False

    def _send(self, frame: bytes) -> None:
        import websocket

        try:
            with self._sending:
                self._socket.send_binary(frame)
        except (websocket.WebSocketException, OSError) as error:
            raise BrokenPipeError(str(error)) from error


def _connect(
    api: Api, place: Place, pod: str, container: str, command: Sequence[str], *, tty: bool = False
) -> "WebSocket":
    import websocket
    from kubernetes.stream import ws_client

    untyped: Any = ws_client

    query = [
        ("container", container),
        *((key, "true") for key in ("stdin", "stdout", "tty" if tty else "stderr")),
        *(("command", word) for word in command),
    ]
    scheme = "wss" if api.host.startswith("https") else "ws"
    url = f"{scheme}://{api.host.split('://', 1)[1]}{place.pod(pod)}/exec?{urlencode(query)}"
    since, tries = time.monotonic(), 0
    while True:
        api.requests += 1
        try:
            headers = {**api.headers(), "sec-websocket-protocol": _PROTOCOL}
            made: WebSocket = untyped.create_websocket(api.configuration, url, headers)
            return made
        except websocket.WebSocketBadStatusException as error:
            refusal = api.refusal(error.status_code, error.resp_body or b"")
            if refusal.status == 403 or not isinstance(refusal, CredentialsError):
                raise _refused(pod, refusal) from error
            api.again(refusal, since, tries)
        except CredentialsError as error:
            api.again(error, since, tries)
        except (websocket.WebSocketException, OSError) as error:
            raise BrokenExecError(f"The pod {pod} can not be reached: {error}.", "Try again.") from error
        tries += 1


def _refused(pod: str, refusal: ApiError) -> SlipwayError:
    if refusal.status == 403:
        remedy = "Ask whoever runs the cluster for the right to get and to create pods/exec."
        return ApiError(refusal.what, remedy, refusal.status, refusal.reason)
    return BrokenExecError(f"No program can be started in pod {pod}: {refusal.what}", "Try again.")


def _exit_code(status: dict[str, Any]) -> int:
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise BrokenExecError(f"The program was not run: {status.get('message', status)}.", "Try again.")
