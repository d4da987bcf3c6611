"""Asks a program beside the data again where one that was asked died without an answer."""

from collections.abc import Mapping
from typing import Any

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from blocks.clusters.errors import ProgramError
from blocks.clusters.port import Cluster


def call_patiently(
    cluster: Cluster, volume: str, program: str, arguments: Mapping[str, Any], *, writable: bool = False
) -> dict[str, Any]:
    """`Cluster.call` for what takes hours to follow and must not end for one killed process; a refusal is none.

    Args:
        program: one that may be asked twice, as all of them may.
    """
    for attempt in Retrying(
        stop=stop_after_attempt(6),
        wait=wait_exponential(max=60),
        retry=retry_if_exception(lambda e: isinstance(e, ProgramError) and e.kind == ProgramError.__name__),
        reraise=True,
    ):
        with attempt:
            answer = cluster.call(volume, program, arguments, writable=writable)
    return answer
