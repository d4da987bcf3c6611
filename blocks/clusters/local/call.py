"""Programs of `tasks.pod.program` as child processes of the caller: the local cluster's `call` and `stream`."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from blocks.clusters.answer import read_answer
from blocks.clusters.errors import ProgramError
from blocks.clusters.local.environment import SCRATCH, base_environment, job_environment
from blocks.clusters.local.scratch import Scratch, call_scratch


def call_program(
    program: str,
    arguments: Mapping[str, Any],
    *,
    volume: Path | None,
    env: Mapping[str, str],
    secrets: Mapping[str, str],
    project: Path,
    timeout_seconds: float,
) -> dict[str, Any]:
    """Run a program to its end and return its answer.

    Args:
        program: its name in `tasks.pod.program`.
        arguments: JSON for it.
        volume: the directory of the volume.
        env: its own variables; paths at their start are translated.
        secrets: variable → value.
        project: the directory to import `tasks` from.
        timeout_seconds: after which it is killed.

    Raises:
        ProgramError: it refused, failed or took too long.
    """
    with call_scratch() as scratch:
        environment = {**_environment(volume, scratch.path, env, project), **secrets}
        process = _start([program], environment, scratch, stderr=subprocess.PIPE)
        with _ended(process):
            try:
                out, err = process.communicate(_line(arguments), timeout_seconds)
            except subprocess.TimeoutExpired:
                raise ProgramError(
                    f"{program} took longer than {timeout_seconds:g} seconds and was ended.",
                    "Try again; for long work, submit a job.",
                    "Timeout",
                ) from None
    return read_answer(program, process.returncode, _last_line(out), err)


class LocalStream:
    """A program with both ends of its pipes. Its standard error goes to a file, so that it can never fill up."""

    def __init__(self, program: str, process: "subprocess.Popen[bytes]", errors: IO[bytes]) -> None:
        assert process.stdin and process.stdout
        self.stdin: IO[bytes] = process.stdin
        self.stdout: IO[bytes] = process.stdout
        self._program = program
        self._process = process
        self._errors = errors

    def result(self) -> dict[str, Any]:
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        if not self.stdout.closed:
            while self.stdout.read(2**20):  # what the caller did not want to read must not hold it up
                pass
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().splitlines(keepends=True)
        return read_answer(self._program, code, (lines or [b""])[-1], b"".join(lines))


@contextlib.contextmanager
def stream_program(program: str, arguments: Mapping[str, Any], *, volume: Path, project: Path) -> Iterator[LocalStream]:
    """Like `call_program`, with its pipes open; it ends with the block.

    Raises:
        ProgramError: also in place of the BrokenPipeError of a write to a program that has ended.
    """
    with call_scratch() as scratch, tempfile.TemporaryFile() as errors:
        environment = _environment(volume, scratch.path, {}, project)
        process = _start(["--stream", program], environment, scratch, stderr=errors)
        with _ended(process):
            stream = LocalStream(program, process, errors)
            try:
                stream.stdin.write(_line(arguments))
                stream.stdin.flush()
                yield stream
            except BrokenPipeError:
                stream.result()
                raise


def _environment(volume: Path | None, scratch: Path, env: Mapping[str, str], project: Path) -> dict[str, str]:
    directories = {SCRATCH: scratch, **({"/volume": volume} if volume else {})}
    return {**base_environment(project), **job_environment(env, directories, project)}


def _start(
    arguments: list[str], env: dict[str, str], scratch: Scratch, stderr: int | IO[bytes]
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "tasks.pod.program", *arguments],
        cwd=scratch.path,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,
        pass_fds=(scratch.lock,),
    )


@contextlib.contextmanager
def _ended(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """End the program, and what it started, with the block, however that ends."""
    try:
        yield
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def _line(arguments: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(arguments)).encode() + b"\n"


def _last_line(text: bytes) -> bytes:
    return (text.splitlines() or [b""])[-1]
