"""What commands print: tables and JSON on standard output, everything else on standard error."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 400  # where nobody looks, lines are not broken: they can be searched
_GAP = 3  # between columns
_FOLDED = 16  # the least that a column which is broken into lines is given
_NAMED = 4
_COLOURS = {
    "green": ("ready", "complete", "completed"),
    "cyan": ("held", "to do", "planned", "queued", "starting", "running", "provisioning", "growing"),
    "yellow": ("warning", "unknown", "stopped", "deleting"),
    "red": ("blocked", "incomplete", "failed", "lost"),
}
STYLES = {word: colour for colour, words in _COLOURS.items() for word in words}
"""The colour of a state, a verdict or a mark of a plan."""


def console(file: IO[str]) -> "Console":
    from rich.console import Console

    fixed = not file.isatty() and "COLUMNS" not in os.environ
    return Console(file=file, width=_WIDE if fixed else None, highlight=False, markup=False, emoji=False)


def say(text: str) -> None:
    """A message for people."""
    print(text, file=sys.stderr, flush=True)


def show_json(value: Any) -> None:
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    print(json.dumps(value, indent=2, ensure_ascii=ascii_only, default=str))


def show_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    empty: str,
    right: Sequence[str] = (),
    wraps: str = "",
    to_stderr: bool = False,
) -> None:
    """Print rows under their heads.

    Args:
        empty: said on standard error where there are no rows.
        right: heads of columns that are aligned to the right.
        wraps: head of the column that is broken into lines where there is not enough room. The others are kept whole,
            since names are there to be copied: columns that say nothing are left out then, and if that is not enough,
            lines are longer than the terminal is wide.
        to_stderr: print it there, beside what a program reads.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if not rows:
        say(empty)
        return
    screen = console(sys.stderr if to_stderr else sys.stdout)
    cells = [[Text(printable(cell), style=STYLES.get(cell, "")) for cell in row] for row in rows]
    widest = [max(Text(name).cell_len, *(row[place].cell_len for row in cells)) for place, name in enumerate(head)]
    least = [min(_FOLDED, width) if name == wraps else width for name, width in zip(head, widest, strict=True)]
    shown = list(range(len(head)))
    if sum(least) + _GAP * (len(shown) - 1) > screen.width:
        shown = [place for place in shown if any(row[place].plain for row in cells)]
    screen.width = max(screen.width, sum(least[place] for place in shown) + _GAP * (len(shown) - 1))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for place in shown:
        name = head[place]
        table.add_column(
            Text(name),
            justify="right" if name in right else "left",
            no_wrap=name != wraps,
            overflow="fold",
            min_width=least[place],
        )
    for row in cells:
        table.add_row(*(row[place] for place in shown))
    screen.print(table, soft_wrap=False)


def show_facts(facts: Mapping[str, str]) -> None:
    """Print names and values in two columns; empty values are left out."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, show_edge=False, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value:
            table.add_row(Text(name), Text(printable(value), style=STYLES.get(value.partition(":")[0], "")))
    console(sys.stdout).print(table)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Say on standard error what is waited for: a spinner on a terminal, else a line."""
    screen = console(sys.stderr)
    if not screen.is_terminal:
        say(f"{text} …")
        yield
        return
    with screen.status(text):
        yield


def printable(text: str, also: str = "") -> str:
    """Text of others without what could drive a terminal.

    Args:
        also: characters to let through besides line ends.
    """
    if text.isprintable():  # a log has millions of lines
        return text
    return "".join(
        c if c.isprintable() or c == "\n" or c in also else c.encode("unicode_escape").decode() for c in text
    )


def some_of(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:_NAMED])} and {more} more"


def ago(when: datetime) -> str:
    """How long ago, as people say it."""
    seconds = max(0, (datetime.now(UTC) - when).total_seconds())
    for unit, length, most in (("s", 1, 60), ("min", 60, 60), ("h", 3600, 48), ("d", 86400, 60)):
        if seconds < length * most:
            return "now" if seconds < 2 else f"{seconds // length:.0f} {unit} ago"
    return f"{when:%Y-%m-%d}"


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
