"""Measures commands from outside, and prints medians side by side as a Markdown table."""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

_SLOW_STARTS = "PYTHONDONTWRITEBYTECODE"
"""Set in some containers; every start of a Python would be measured with its compiler."""
_CHILD = Path(__file__).with_name("child.py")


@dataclass(frozen=True)
class Sample:
    """One measured command.

    Args:
        wall, cpu: seconds, the CPU's of the process and of all children that it has waited for.
        peak: resident bytes of the process or of its largest such child.
        output: its standard output.
    """

    wall: float
    cpu: float
    peak: int
    output: str


def measure(
    argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None, *, through: Path = _CHILD
) -> Sample:
    """Run a command to its end; its program as an absolute path.

    Args:
        through: the script that runs it and says what it took.

    Raises:
        RuntimeError: it failed; with what it printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(through), str(result), *argv],
            env={name: value for name, value in os.environ.items() if name != _SLOW_STARTS} | dict(env or {}),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        taken = json.loads(result.read_text())
    if taken["code"]:
        raise RuntimeError(f"{' '.join(argv)} ended with {taken['code']}:\n{done.stdout}{done.stderr}")
    return Sample(taken["wall"], taken["cpu"], taken["peak"], done.stdout)


def interleaved(variants: Mapping[str, Callable[[int], Sample]], rounds: int) -> dict[str, list[Sample]]:
    """Measure every variant once a round, so that what else the machine does hits all of them alike."""
    taken: dict[str, list[Sample]] = {name: [] for name in variants}
    for number in range(rounds):
        for name, take in variants.items():
            taken[name].append(take(number))
            print(
                f"  round {number + 1} of {rounds}, {name}: {taken[name][-1].wall:.2f} s", file=sys.stderr, flush=True
            )
    return taken


def compare(title: str, taken: Mapping[str, Sequence[Sample]], base: str, size: int = 0) -> None:
    """Print medians, and each variant's ratio to `base`.

    Args:
        size: bytes that each moved, for the CPU seconds a GiB; 0 where that says nothing.
    """
    walls = {name: statistics.median(s.wall for s in samples) for name, samples in taken.items()}
    cpus = {name: statistics.median(s.cpu for s in samples) for name, samples in taken.items()}
    peaks = {name: statistics.median(s.peak for s in samples) for name, samples in taken.items()}
    table(
        title,
        (
            *("", "wall", "ratio", *(("round by round",) if size else ())),
            *("CPU", "ratio", *(("CPU a GiB",) if size else ()), "peak memory", "ratio"),
        ),
        [
            (
                name,
                f"{walls[name]:.2f} s",
                f"{walls[name] / walls[base]:.2f}",
                *((_spread(taken[name], taken[base]),) if size else ()),
                f"{cpus[name]:.2f} s",
                f"{cpus[name] / cpus[base]:.2f}",
                *((f"{cpus[name] / (size / 2**30):.2f} s",) if size else ()),
                f"{peaks[name] / 2**20:.0f} MiB",
                f"{peaks[name] / peaks[base]:.2f}",
            )
            for name in taken
        ],
    )
    rounds = len(taken[base])
    print(f"\nMedians of {rounds} interleaved rounds; ratios are to `{base}`.")


def _spread(ours: Sequence[Sample], base: Sequence[Sample]) -> str:
    """The lowest and the highest ratio of one round, in which both were measured one after the other."""
    ratios = sorted(mine.wall / theirs.wall for mine, theirs in zip(ours, base, strict=True))
    return f"{ratios[0]:.2f} to {ratios[-1]:.2f}"


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    print(f"\n### {title}\n")
    for number, row in enumerate((header, *rows)):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
        if not number:
            print("|" + "|".join("-" * (width + 1) + (":" if at else "-") for at, width in enumerate(widths)) + "|")


def machine() -> str:
    """When and on what this was measured."""
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, {platform.system()}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f} at the start"
    )
