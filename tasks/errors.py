"""The two ends of one exception family: refusals of clusters, and refusals of what runs beside the data."""

import logging

from blocks.clusters.errors import SlipwayError
from tasks.pod.errors import PodError

EXPECTED: tuple[type[SlipwayError], type[PodError]] = (SlipwayError, PodError)
"""What is shown as one line, without a traceback."""


class _WithoutTraceback(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], EXPECTED):
            record.exc_info = None
        return True


def hush_expected() -> None:
    """Keep Prefect from logging tracebacks of expected failures: their message says all there is."""
    for name in ("prefect.flow_runs", "prefect.task_runs"):
        logger = logging.getLogger(name)
        if not any(isinstance(f, _WithoutTraceback) for f in logger.filters):
            logger.addFilter(_WithoutTraceback())
