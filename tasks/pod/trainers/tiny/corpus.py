"""The staged dataset as bytes to predict, and the order in which a training goes through them."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.pod.errors import NotThereError, PodError
from tasks.pod.trainers.tiny.network import Bytes

Positions = npt.NDArray[np.int64]

LIMIT = 64 * 2**20
"""Bytes of text that are read at most; this trainer is for demos and tests."""

_HELD_OUT = ("val", "test", "eval")


@dataclass(frozen=True)
class Corpus:
    """All examples in a row.

    Args:
        text: the bytes, of shape (length,); `context_size` zeros come first and one after each example.
        targets: positions in `text` of the bytes to predict, of shape (bytes to predict,).
    """

    text: Bytes
    targets: Positions

    def at(self, targets: Positions, context_size: int) -> tuple[Bytes, Bytes]:
        """Contexts, of shape (positions, context_size), and the bytes that follow, of shape (positions,)."""
        return self.text[targets[:, None] + np.arange(-context_size, 0)], self.text[targets]

    def within(self, windows: Positions, seq_len: int) -> Positions:
        """Positions of the bytes to predict in some windows, of shape (windows * seq_len,)."""
        places = windows[:, None] * seq_len + np.arange(seq_len)
        return np.take(self.targets, places.reshape(-1))

    def digest(self, seq_len: int) -> str:
        """Names what an order goes through: the same text, cut the same way."""
        sha = hashlib.sha256(self.text.tobytes())
        sha.update(self.targets.tobytes())
        sha.update(str(seq_len).encode())
        return sha.hexdigest()


def read_corpus(directory: Path, context_size: int) -> tuple[Corpus, Corpus | None]:
    """What to learn from, and what is held out, if any: files named val*, test* or eval*.

    A line is `{"text": …}`, of which every byte is predicted, or `{"prompt": …, "completion": …}`, of which
    the completion is.

    Args:
        directory: of a dataset version.
        context_size: bytes before a predicted one that are looked at.

    Raises:
        NotThereError: there is no directory or no JSON lines file in it.
        PodError: a line is not one of the two.
    """
    files = sorted(directory.rglob("*.jsonl"))
    if not files:
        missing = "there are no .jsonl files in it" if directory.is_dir() else "there is no such directory"
        raise NotThereError(f"There is no dataset at {directory}: {missing}.", "Stage the dataset as JSON lines.")
    held_out = [file for file in files if file.name.startswith(_HELD_OUT)]
    learned = [file for file in files if file not in held_out]
    if not learned:
        raise NotThereError(f"The dataset at {directory} has only held-out files.", "Add train.jsonl to it.")
    return _join(learned, context_size), _join(held_out, context_size) if held_out else None


class Order:
    """A shuffled pass over the windows of a corpus after another, which can be written down and gone on with.

    Args:
        windows: sequences in a pass.
        digest: names what they are cut from.
        seed: of the passes' shuffles.
    """

    def __init__(self, windows: int, digest: str, seed: int) -> None:
        self.windows, self.digest = windows, digest
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._epoch = -1
        self._begin()

    def take(self, count: int) -> Positions:
        """The next windows, of shape (count,); a new pass begins where one is through."""
        taken = []
        while count:
            some = self._shuffled[self._position : self._position + count]
            taken.append(some)
            self._position += len(some)
            count -= len(some)
            if self._position == self.windows:
                self._begin()
        return np.concatenate(taken)

    def as_json(self) -> dict[str, Any]:
        return {
            "digest": self.digest,
            "epoch": self._epoch,
            "order_seed": self._seed,
            "position": self._position,
            "rng": self._random.bit_generator.state,
        }

    def go_on(self, written: dict[str, Any]) -> bool:
        """Continue where `as_json` was taken; false if the data are others and a new pass over them begins."""
        self._random.bit_generator.state = written["rng"]
        same = bool(written["digest"] == self.digest)
        if same:
            self._epoch, self._seed = written["epoch"], written["order_seed"]
            self._shuffled, self._position = self._shuffle(), written["position"]
        else:
            self._epoch = written["epoch"]
            self._begin()
        return same

    def _begin(self) -> None:
        self._epoch += 1
        self._seed = int(self._random.integers(2**63))
        self._shuffled, self._position = self._shuffle(), 0

    def _shuffle(self) -> Positions:
        return np.random.Generator(np.random.PCG64(self._seed)).permutation(self.windows)


def _join(files: list[Path], context_size: int) -> Corpus:
    pieces = [bytes(context_size)]
    targets: list[Positions] = []
    length = context_size
    for given, predicted in _examples(files):
        targets.append(np.arange(length + len(given), length + len(given) + len(predicted)))
        pieces += (given, predicted, b"\0")
        length += len(given) + len(predicted) + 1
        if length > LIMIT:
            print(f"only the first {LIMIT >> 20} MiB of the dataset are used", flush=True)
            break
    text = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    return Corpus(text, np.concatenate(targets) if targets else np.zeros(0, dtype=np.int64))


def _examples(files: list[Path]) -> Iterator[tuple[bytes, bytes]]:
    """What is given and what is to be predicted, line by line."""
    for file in files:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                    text, prompt = (row["text"], "") if "text" in row else (row["completion"], row["prompt"])
                    yield prompt.encode(), text.encode()
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    raise PodError(
                        f"{file}, line {number}, can not be learned from.",
                        'Each line has to be {"text": "…"} or {"prompt": "…", "completion": "…"}.',
                    ) from error
