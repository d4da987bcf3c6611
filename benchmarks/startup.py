"""How long the command line takes to answer, beside Prefect's own and beside Python itself."""

import sys
from pathlib import Path

from benchmarks.measure import Sample, compare, interleaved, measure

BIN = Path(sys.executable).parent
ROUNDS = 9


def main(settings: Path) -> None:
    """Print the table.

    Args:
        settings: a slipway.toml whose cluster has a volume with runs.
    """

    def command(*argv: str) -> Sample:
        return measure([str(BIN / argv[0]), *argv[1:]], env={"SLIPWAY_SETTINGS": str(settings)})

    taken = interleaved(
        {
            "python -c pass": lambda _: command("python", "-c", "pass"),
            "slipway --help": lambda _: command("slipway", "--help"),
            "slipway volumes list": lambda _: command("slipway", "volumes", "list"),
            "slipway runs list": lambda _: command("slipway", "runs", "list"),
            "prefect --version": lambda _: command("prefect", "--version"),
            "prefect --help": lambda _: command("prefect", "--help"),
        },
        ROUNDS,
    )
    compare("Start-up of the command line", taken, "prefect --help")
