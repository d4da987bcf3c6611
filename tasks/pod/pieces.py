"""The fast hash of a file: XXH3-128 over the XXH3-128 digests of its pieces, so that pieces can be hashed in any order.

It proves a copy of bytes that sha256 has proven once; it is no protection against somebody who means harm.
"""

from collections.abc import Iterable

import xxhash

PIECE = 16 << 20
"""Bytes of a piece; the last one of a file may be shorter. Part of what the hash means: never change it."""


def combine(digests: Iterable[bytes]) -> str:
    """The hash of a file from the digests of its pieces, in order."""
    whole = xxhash.xxh3_128()
    for digest in digests:
        whole.update(digest)
    return whole.hexdigest()


class PieceHasher:
    """Hashes a file that is fed in order, cut wherever the feeder likes."""

    def __init__(self) -> None:
        self._digests: list[bytes] = []
        self._piece = xxhash.xxh3_128()
        self._left = PIECE

    def update(self, chunk: memoryview | bytes) -> None:
        view = memoryview(chunk)
        while len(view) >= self._left:
            self._piece.update(view[: self._left])
            view = view[self._left :]
            self._digests.append(self._piece.digest())
            self._piece, self._left = xxhash.xxh3_128(), PIECE
        if len(view):
            self._piece.update(view)
            self._left -= len(view)

    def hexdigest(self) -> str:
        last = [self._piece.digest()] if self._left < PIECE else []
        return combine([*self._digests, *last])
