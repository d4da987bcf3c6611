"""The log of a job's pods, read on from where the last look ended.

The API takes a time to begin at, to the second, and gives each line's, to the nanosecond: what it repeats of the last
second is left out here. So nothing is held open between two looks, and a cut connection costs nothing but a request.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from blocks.clusters.kubernetes import gang
from blocks.clusters.kubernetes.api import Api, ApiError, CutOffError
from blocks.clusters.kubernetes.place import Place
from blocks.clusters.kubernetes.times import write_time
from blocks.clusters.lines import LONGEST_PIECE, Lines

Json = dict[str, Any]
_Moment = tuple[datetime, str]  # with the nanoseconds that a datetime has no room for
_Line = tuple[_Moment, int]

_FRACTION = re.compile(r"\.(\d+)")
_NEVER: _Moment = (datetime.min.replace(tzinfo=UTC), "")


class JobLog:
    """The lines of a job; iterated again, those that came since.

    Args:
        pods: finds them, one a node, in the order of the nodes.
        since: a time to begin at.
        last: begin with so many of the last lines of each node.
    """

    def __init__(
        self, api: Api, place: Place, pods: Callable[[], list[Json]], since: datetime | None, last: int | None
    ) -> None:
        self._api, self._place, self._pods = api, place, pods
        self._first: dict[str, str] = {"sinceTime": write_time(since)} if since else {}
        self._last = last
        self._begun: dict[str, dict[str, _ContainerLog]] = {}

    def __iter__(self) -> Iterator[str]:
        for pod in self._pods():
            last = None if pod["metadata"]["name"] in self._begun else self._last
            lines = self._news(pod)
            yield from lines if last is None else deque(lines, maxlen=last)

    def _news(self, pod: Json) -> Iterator[str]:
        name = pod["metadata"]["name"]
        sign = f"[node {gang.index(pod)}] " if gang.index(pod) else ""  # of several nodes, those after the first
        first = self._first if self._last is None else {**self._first, "tailLines": str(self._last)}
        logs = self._begun.setdefault(name, {})
        for container, is_over in _started_containers(pod):
            log = logs.setdefault(container, _ContainerLog(self._api, f"{self._place.pod(name)}/log", container, first))
            yield from (sign + line for line in log.news(is_over=is_over))


class _ContainerLog:
    """The log of one container. Remembers the newest line, by its time and place among those of that time, and how many
    bytes of it were read. While a node's clock is behind where it was, since it was set back, nothing new is seen.
    """

    def __init__(self, api: Api, path: str, container: str, first: dict[str, str]) -> None:
        self._api, self._path = api, path
        self._query = {"container": container, "timestamps": "true"}
        self._first = first
        self._line: _Line | None = None
        self._bytes = 0
        self._lines = Lines()
        self._is_over = False

    def news(self, *, is_over: bool) -> Iterator[str]:
        """The lines that are new.

        Args:
            is_over: whether the container had ended before this: then nothing more will come.
        """
        while not self._is_over:
            before = (self._line, self._bytes)
            try:
                yield from self._look()
            except CutOffError:  # on from there, unless it came to nothing
                if before == (self._line, self._bytes):
                    raise
            except ApiError as error:
                if error.status not in (400, 404):  # it has not begun, or is gone
                    raise
                return
            else:
                self._is_over = is_over
                return

    def _look(self) -> Iterator[str]:
        known, read = self._line, self._bytes
        first = {"sinceTime": write_time(known[0][0])} if known else self._first
        line, at, is_past = (_NEVER, 0), 0, known is None
        for begins, piece in _pieces(self._api.text(self._path, {**self._query, **first})):
            text = piece
            if begins:
                moment, text = _stamped(piece)
                line, at = (moment, line[1] + 1 if moment == line[0] else 0), 0
                is_past = is_past or known is None or line > known
            new = text if is_past else text[max(0, read - at) :] if line == known else b""
            at += len(text)
            if new:
                if self._line is None or line >= self._line:
                    self._line, self._bytes = line, at
                yield from self._lines.of(new)


def _pieces(answer: Iterator[bytes]) -> Iterator[tuple[bool, bytes]]:
    """Lines with their ends, and whether each begins one: of one that is very long there are pieces."""
    rest, begins = b"", True
    for block in answer:
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield begins, line + b"\n"
            begins = True
        if len(rest) >= LONGEST_PIECE:
            yield begins, rest
            rest, begins = b"", False
    if rest:
        yield begins, rest


def _stamped(line: bytes) -> tuple[_Moment, bytes]:
    """A line's time and the rest of it. Without a time it is the end of one that began before the answer does."""
    stamp, _, content = line.partition(b" ")
    try:
        text = stamp.decode("ascii")
        fraction = _FRACTION.search(text)
        return (datetime.fromisoformat(text), (fraction[1] if fraction else "").ljust(9, "0")), content
    except ValueError:
        return _NEVER, line


def _started_containers(pod: Json) -> list[tuple[str, bool]]:
    """Names of the containers that have a log, in the order in which they started, and whether they have ended."""
    status = pod.get("status") or {}
    return [
        (container["name"], "terminated" in (container.get("state") or {}))
        for key in ("initContainerStatuses", "containerStatuses")
        for container in status.get(key) or ()
        if not (container.get("state") or {}).get("waiting")
    ]
