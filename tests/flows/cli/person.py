"""Somebody at a terminal of their own."""

import os
import pty
import struct
import subprocess
import sys
from fcntl import ioctl
from termios import TIOCSCTTY, TIOCSWINSZ, tcgetattr
from typing import Any

import pytest

from tests.flows.cli.conftest import REPOSITORY, Slipway


def sleep_once_there_are(columns: int) -> bytes:
    """A shell's line: a program that waits for its terminal to have that size, says it, columns first, and sleeps.

    Once it says so it is in the foreground and takes control-C; some shells lose one that comes before a program runs.
    """
    wait = f"while os.get_terminal_size().columns != {columns}: time.sleep(0.1)"
    code = f"import os, time; exec('{wait}'); print(*os.get_terminal_size(), flush=True); time.sleep(300)"
    return f'python -c "{code}"'.encode()


class Person:
    """Somebody at a terminal who starts the command line.

    `modes` are the terminal's, as they are now and, once the command line has ended, as that left them.
    """

    def __init__(self, slipway: Slipway, *arguments: str, rows: int = 30, columns: int = 90) -> None:
        self._ours, theirs = pty.openpty()
        self.resize(rows, columns)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli.app", *arguments],
            cwd=slipway.folder,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: ioctl(0, TIOCSCTTY, 0),
        )
        os.close(theirs)
        self.seen = b""
        self._left: list[Any] | None = None

    @property
    def modes(self) -> list[Any]:
        return self._left or tcgetattr(self._ours)

    def resize(self, rows: int, columns: int) -> None:
        ioctl(self._ours, TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def types(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def sees(self, words: bytes) -> None:
        while words not in self.seen:
            try:
                self.seen += os.read(self._ours, 4096)
            except OSError:
                pytest.fail(f"{words!r} is not in {self.seen!r}")

    def leaves(self) -> int:
        try:
            while True:
                self.seen += os.read(self._ours, 4096)
        except OSError:
            return self.process.wait(200)
        finally:
            self._left = tcgetattr(self._ours)
            os.close(self._ours)
