"""What Prefect logs while a flow runs in this process, as lines for people: time and message, no chatter."""

import logging
import sys
from typing import Any, TextIO

from flows.cli.show import printable, say

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


class _Away(logging.Filter):
    """Says once that the server is away, in place of all that could not be sent to it."""

    def __init__(self) -> None:
        super().__init__()
        self._said = False

    def filter(self, record: logging.LogRecord) -> bool:
        is_failure = record.levelno >= logging.ERROR
        if is_failure and not self._said:
            self._said = True
            say("The Prefect server does not answer: its pages may miss what happens meanwhile. What runs goes on.")
        return not is_failure


def without_tracebacks_of_services() -> None:
    """Have Prefect's threads that send logs and events fail in one line, however often they do."""
    logging.raiseExceptions = False  # or each batch of lines that was not sent is an error on the terminal
    services = logging.getLogger("prefect._internal.concurrency")
    if not any(isinstance(there, _Away) for there in services.filters):
        services.addFilter(_Away())
