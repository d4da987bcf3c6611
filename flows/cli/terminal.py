"""Joins the person's terminal to a program in a session, until that ends."""

import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from blocks.clusters.errors import SlipwayError
from blocks.clusters.port import Terminal

_CHUNK = 2**16


def relay(terminal: Terminal, *, raw: bool) -> int:
    """Pass on what is typed and what is said, and return the program's exit code.

    Args:
        raw: there is a terminal at both ends: keys go through as they are, control-C too, and its size is followed.

    Raises:
        SlipwayError: the session, or the way to it, ended first.
    """
    ended, wake = os.pipe()
    with _raw(terminal) if raw else _as_it_is():
        typing = threading.Thread(target=_type, args=(terminal, ended), daemon=True)
        typing.start()
        try:
            while (said := terminal.read()) is not None:
                out = sys.stderr.buffer if said[0] == 2 else sys.stdout.buffer
                out.write(said[1])
                out.flush()
        finally:
            os.close(wake)
            typing.join(5)
    try:
        return terminal.wait()
    except SlipwayError:
        if raw:  # what the program said last has not ended its line
            print(file=sys.stderr, flush=True)
        raise


def _type(terminal: Terminal, ended: int) -> None:
    """Pass on standard input until it ends, or the program does."""
    source = sys.stdin.fileno()
    try:
        while True:
            ready, _, _ = select.select([source, ended], [], [])
            if ended in ready:
                return
            if not (typed := os.read(source, _CHUNK)):
                terminal.end_input()
                return
            terminal.write(typed)
    except (BrokenPipeError, OSError):
        return


@contextmanager
def _raw(terminal: Terminal) -> Iterator[None]:
    def follow(*_: object) -> None:
        columns, rows = os.get_terminal_size()
        terminal.resize(rows, columns)

    before = termios.tcgetattr(sys.stdin)
    earlier = signal.signal(signal.SIGWINCH, follow)
    try:
        tty.setraw(sys.stdin, termios.TCSADRAIN)  # what was typed ahead is not lost
        yield
    finally:
        signal.signal(signal.SIGWINCH, earlier)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield
