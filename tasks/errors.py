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


class _WithoutGoodEnds(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Finished in state Completed")


def quiet_engine() -> None:
    """Keep Prefect's own lines out of the log where ours say all there is: tracebacks of expected failures, and that
    a step has completed."""
    for name, *filters in (
        ("prefect.flow_runs", _WithoutTraceback),
        ("prefect.task_runs", _WithoutTraceback, _WithoutGoodEnds),
    ):
        logger = logging.getLogger(name)
        for kind in filters:
            if not any(isinstance(f, kind) for f in logger.filters):
                logger.addFilter(kind())
