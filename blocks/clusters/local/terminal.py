"""A person's program on the local cluster: a child process with a terminal of its own, or with pipes."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Sequence
from pathlib import Path

from blocks.clusters.errors import SlipwayError
from blocks.clusters.local.environment import base_environment, translate_command

_CHUNK = 2**16
_LOOK_SECONDS = 1.0


class LocalTerminal:
    """A program in a volume's directory. It ends when its session's lease goes.

    Args:
        command: with container paths (`/volume/…`); a shell if it is empty.
        volume: the directory of the volume.
        project: the directory to import `tasks` from.
        size: rows and columns of the terminal; None for pipes.
        lease: the file that is there for as long as the session lasts.
    """

    def __init__(
        self, command: Sequence[str], volume: Path, project: Path, size: tuple[int, int] | None, lease: Path
    ) -> None:
        directories = {"/volume": volume}
        env = {**base_environment(project), "SLIPWAY_VOLUME": str(volume)}
        if term := os.environ.get("TERM"):
            env["TERM"] = term
        words = translate_command(command, directories) or [os.environ.get("SHELL", "/bin/sh")]
        self._lease = lease
        self._terminal = size is not None
        if size is not None:
            ours, theirs = pty.openpty()
            _resize(ours, *size)
            self._process = _start(words, volume, env, theirs, theirs, theirs, terminal=True)
            os.close(theirs)
            self._input, self._outputs = ours, {ours: 1}
        else:
            pipes = subprocess.PIPE
            self._process = _start(words, volume, env, pipes, pipes, pipes, terminal=False)
            assert self._process.stdin and self._process.stdout and self._process.stderr
            self._input = self._process.stdin.fileno()
            self._outputs = {self._process.stdout.fileno(): 1, self._process.stderr.fileno(): 2}

    def read(self) -> tuple[int, bytes] | None:
        while self._outputs:
            ready, _, _ = select.select(list(self._outputs), [], [], _LOOK_SECONDS)
            for descriptor in ready:
                with contextlib.suppress(OSError):  # a terminal without a program answers EIO
                    if said := os.read(descriptor, _CHUNK):
                        return self._outputs[descriptor], said
                del self._outputs[descriptor]
            if not self._lease.exists():
                self._end()
                return None
        return None

    def write(self, content: bytes) -> None:
        view = memoryview(content)
        try:
            while view:
                view = view[os.write(self._input, view) :]
        except OSError as error:
            raise BrokenPipeError(str(error)) from error

    def end_input(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()

    def resize(self, rows: int, columns: int) -> None:
        if self._terminal:
            _resize(self._input, rows, columns)

    def wait(self) -> int:
        if not self._lease.exists():
            self._end()
            raise SlipwayError("The session was stopped.", "Open another one.")
        code = self._process.wait()
        return 128 - code if code < 0 else code

    def close(self) -> None:
        self._end()
        if self._terminal:
            with contextlib.suppress(OSError):
                os.close(self._input)

    def _end(self) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGHUP)
            try:
                self._process.wait(2)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _start(
    words: list[str], volume: Path, env: dict[str, str], stdin: int, stdout: int, stderr: int, *, terminal: bool
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            words,
            cwd=volume,
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=_take_terminal if terminal else None,
        )
    except OSError as error:
        raise SlipwayError(
            f"{words[0]!r} can not be started: {error.strerror}.", "Name a program that is there."
        ) from None


def _take_terminal() -> None:
    """Make standard input the terminal of the new session, so that control-C reaches what runs in its foreground."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _resize(descriptor: int, rows: int, columns: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
