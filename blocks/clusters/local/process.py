"""One program in a session of its own: started only once its identity is on record, ended with all it started.

Free of everything outside the standard library, because the supervisor starts with it.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from blocks.clusters.local.identity import Identity, identify

_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1)


def start(
    command: Sequence[str], env: Mapping[str, str], directory: Path, log: int, record: Callable[[Identity], None]
) -> int:
    """Start a program and return its pid, which is also its process group's.

    The program's first instruction comes after `record` has returned: if the caller is killed before that, the
    program never runs, so that no program runs that nobody knows of.

    Args:
        command: program and arguments; a program without a slash is looked up in `env`'s PATH.
        env: its whole environment.
        directory: where it runs.
        log: an open file for its standard output and error.
        record: writes down the identity.

    Raises:
        OSError: it can not be started.
    """
    go_read, go_write = os.pipe()
    error_read, error_write = os.pipe()
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    pid = os.fork()
    if pid == 0:
        _become(command, env, directory, log, (go_read, go_write, error_write))
    signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
    os.close(go_read)
    os.close(error_write)
    try:
        record(identify(pid))
        with contextlib.suppress(BrokenPipeError):  # it was killed already: its exit status tells
            os.write(go_write, b"1")
    finally:
        os.close(go_write)
    try:
        error = b""
        while piece := os.read(error_read, 16):
            error += piece
    finally:
        os.close(error_read)
    if error:
        os.waitpid(pid, 0)
        number = int(error)
        raise OSError(number, os.strerror(number))
    return pid


def has_ended(pid: int) -> bool:
    """Whether a program of ours has ended; it stays a zombie until `end`. Reaps the orphans that came to us."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return identify_or_none(pid) is None
    while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if found.si_pid == pid:
            return True
        os.waitpid(found.si_pid, 0)
    return False


def end(pid: int) -> int:
    """Kill whatever is left of the program and return its exit code (negative for a signal).

    The leader is reaped last: as long as it is a zombie its number belongs to nobody else.
    """
    signal_group(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    until = time.monotonic() + 5
    while (children := _children()) and time.monotonic() < until:
        for child in children:  # left the group (torchrun's workers do), then came to us, their subreaper
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)
    return code


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group; one that is gone is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: PermissionError for zombies only
        os.killpg(group, number)
        if number == signal.SIGTERM:
            os.killpg(group, signal.SIGCONT)  # a stopped process would not notice


def adopt_orphans() -> None:
    """Make this process the parent of what its descendants leave behind, so that `end` can end it. Linux only."""
    if sys.platform == "linux":
        import ctypes

        pr_set_child_subreaper = 36
        ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def identify_or_none(pid: int) -> Identity | None:
    try:
        return identify(pid)
    except ProcessLookupError:
        return None


def _become(
    command: Sequence[str], env: Mapping[str, str], directory: Path, log: int, pipes: tuple[int, int, int]
) -> None:
    """The child's side of `start`: never returns."""
    go_read, go_write, error_write = pipes
    try:
        signal.set_wakeup_fd(-1)
        for number in (*_SIGNALS, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.setsid()
        os.close(go_write)
        if not os.read(go_read, 1):
            os._exit(127)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(directory)
        os.execvpe(command[0], list(command), dict(env))  # noqa: S606 - a list made by us, no shell
    except OSError as error:
        os.write(error_write, str(error.errno).encode())
    finally:
        os._exit(127)


def _children() -> list[int]:
    if sys.platform != "linux":
        return []
    try:
        return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return []
