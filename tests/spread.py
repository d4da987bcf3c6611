"""How the tests are spread over processes: by file, the long ones first, and few Prefect servers.

A process that meets a test with a Prefect server starts one of its own, which costs as much as fifty short tests. So
the files that need one go to two processes, about half of their time to each.
"""

from pathlib import PurePath

import pytest
from xdist.scheduler import LoadFileScheduling

LONG_FIRST = ("examples", "flows", "tasks/sweeps", "tasks/runs", "tasks/reports", "flows/cli")
"""Folders with files that take a minute and more: what begins late ends late."""

_CRASHES_AND_COMMANDS = {
    "tests/flows/test_crashes.py",
    "tests/flows/cli/test_launches.py",
    "tests/flows/cli/test_staged.py",
    "tests/flows/cli/test_trust.py",
}


class ByFile(LoadFileScheduling):
    """Gives each process a file at a time, and those that share a Prefect server together."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        if file in _CRASHES_AND_COMMANDS:
            return "crashes and commands"
        return "flows" if PurePath(file).parent.as_posix() in ("tests/flows", "tests/examples") else file


def turn(item: pytest.Item) -> int:
    """When a test's folder has its turn; to sort by."""
    folder = PurePath(item.nodeid.partition("::")[0]).parent.relative_to("tests").as_posix()
    return LONG_FIRST.index(folder) if folder in LONG_FIRST else len(LONG_FIRST)
