"""Lines of a log that is read while it is written. Free of everything outside the standard library."""

import codecs
from collections.abc import Iterator

LONGEST_PIECE = 1 << 20
"""Bytes of a line that are held in memory; of a longer one there are pieces."""


class Lines:
    """Makes text of the bytes of one log; of a line that is half written what there is, and later the rest."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may be half written, too
        self._half = False

    def of(self, piece: bytes) -> Iterator[str]:
        """The line, without its end, unless there is nothing new to see of it.

        Args:
            piece: what follows in the log, up to the end of a line at most.
        """
        text = self._decoder.decode(piece)
        line = text.rstrip("\r\n")
        if line or (text and not self._half):
            yield line
        self._half = not piece.endswith(b"\n")
