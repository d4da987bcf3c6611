"""What Prefect logs while a flow runs in this process, as lines for people: time and message, no chatter."""

import logging
import sys
from typing import Any, TextIO

from flows.cli.show import printable

_CHATTER = ("Beginning ", "View at ", "Finished in state ", "Created task run", "Created subflow run")
_SHOWN_AS_TABLE = "plan: "
_OF_FLOWS = ("prefect.flow_runs", "prefect.task_runs")


class Narration(logging.StreamHandler[TextIO]):
    """Prefect's console handler, replaced through its environment variable.

    Errors of flows and tasks are left out: they are raised, and the command says them once.
    """

    def __init__(self, stream: TextIO | None = None, styles: dict[str, Any] | None = None) -> None:
        super().__init__(stream or sys.stderr)

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith(_OF_FLOWS):
            return record.levelno >= logging.WARNING
        text = record.getMessage()
        return record.levelno < logging.ERROR and not text.startswith((*_CHATTER, _SHOWN_AS_TABLE))

    def format(self, record: logging.LogRecord) -> str:
        when = self.formatTime(record)
        mark = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        return f"{when} {mark}{printable(record.getMessage())}"

    def formatTime(self, record: logging.LogRecord) -> str:  # noqa: N802 - as in logging.Formatter
        return logging.Formatter(datefmt="%H:%M:%S").formatTime(record, "%H:%M:%S")
