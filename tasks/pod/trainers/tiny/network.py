"""A byte-level neural n-gram language model (Bengio et al. 2003), forward and backward by hand.

The bytes of a context are embedded side by side, pass one tanh layer, and give a distribution over the next
byte.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

VOCABULARY = 256


@dataclass(frozen=True)
class Sizes:
    """What `config.json` says.

    Args:
        context_size: bytes that the next one is predicted from.
        embedding_size, hidden_size: widths.
    """

    context_size: int = 12
    embedding_size: int = 48
    hidden_size: int = 640

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every parameter, by the name that it has in the weights."""
        joined = self.context_size * self.embedding_size
        return {
            "embedding.weight": (VOCABULARY, self.embedding_size),
            "hidden.weight": (joined, self.hidden_size),
            "hidden.bias": (self.hidden_size,),
            "output.weight": (self.hidden_size, VOCABULARY),
            "output.bias": (VOCABULARY,),
        }

    @property
    def parameters(self) -> int:
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def as_json(self) -> dict[str, int]:
        return asdict(self)


class Parameters:
    """Named float32 arrays that lie in one flat one, so that the optimizer is a few passes over one array.

    Args:
        sizes: give names and shapes.
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.flat: Array = np.zeros(sizes.parameters, dtype=np.float32)
        self._named: dict[str, Array] = {}
        start = 0
        for name, shape in sizes.shapes.items():
            length = int(np.prod(shape))
            self._named[name] = self.flat[start : start + length].reshape(shape)
            start += length

    def __getitem__(self, name: str) -> Array:
        return self._named[name]

    def items(self) -> Iterator[tuple[str, Array]]:
        yield from self._named.items()


def initial(sizes: Sizes, seed: int) -> Parameters:
    """Random weights of the usual scale, with a loss near ln(256) = 5.55.

    Only raw integers are drawn, which NumPy keeps the same for all time and on all machines: the same seed
        gives the
    same bytes.
    """
    parameters = Parameters(sizes)
    source = np.random.PCG64(seed)
    for name, values in parameters.items():
        if name.endswith("bias"):
            continue
        draws = source.random_raw(values.size) >> np.uint64(40)
        uniform = draws.astype(np.float32) * np.float32(2**-23) - np.float32(1)
        scale = {"embedding.weight": 0.5, "hidden.weight": 1.5, "output.weight": 0.5}[name]
        bound = scale if name == "embedding.weight" else scale / values.shape[0] ** 0.5
        values[...] = (uniform * np.float32(bound)).reshape(values.shape)
    return parameters


def loss_of(parameters: Parameters, contexts: Bytes, targets: Bytes) -> float:
    """Mean cross entropy in nats a byte.

    Args:
        contexts: of shape (positions, context_size).
        targets: of shape (positions,).
    """
    _, _, logits = _forward(parameters, contexts)
    return _cross_entropy(logits, targets)


def gradients_of(parameters: Parameters, contexts: Bytes, targets: Bytes, gradients: Parameters) -> float:
    """Mean cross entropy in nats a byte; `gradients` is overwritten with its derivatives.

    Args:
        contexts: of shape (positions, context_size).
        targets: of shape (positions,).
    """
    joined, hidden, logits = _forward(parameters, contexts)
    loss = _cross_entropy(logits, targets)  # leaves the probabilities in logits
    positions = len(targets)
    logits[np.arange(positions), targets] -= 1
    logits /= positions

    np.matmul(hidden.T, logits, out=gradients["output.weight"])
    logits.sum(axis=0, out=gradients["output.bias"])
    into_hidden = logits @ parameters["output.weight"].T
    into_hidden *= 1 - hidden * hidden
    np.matmul(joined.T, into_hidden, out=gradients["hidden.weight"])
    into_hidden.sum(axis=0, out=gradients["hidden.bias"])
    into_joined = (into_hidden @ parameters["hidden.weight"].T).reshape(-1, parameters.sizes.embedding_size)
    # a product with a one-hot matrix adds up in a fixed order, and faster than np.add.at
    used, places = np.unique(contexts, return_inverse=True)
    one_hot = np.zeros((len(used), contexts.size), dtype=np.float32)
    one_hot[places.reshape(-1), np.arange(contexts.size)] = 1
    gradients["embedding.weight"][...] = 0
    gradients["embedding.weight"][used] = one_hot @ into_joined
    return loss


def _forward(parameters: Parameters, contexts: Bytes) -> tuple[Array, Array, Array]:
    """Joined embeddings, hidden layer and logits, each of shape (positions, …)."""
    joined = np.take(parameters["embedding.weight"], contexts, axis=0).reshape(len(contexts), -1)
    hidden: Array = joined @ parameters["hidden.weight"]
    hidden += parameters["hidden.bias"]
    np.tanh(hidden, out=hidden)
    logits: Array = hidden @ parameters["output.weight"]
    logits += parameters["output.bias"]
    return joined, hidden, logits


def _cross_entropy(logits: Array, targets: Bytes) -> float:
    """The loss; `logits` becomes the probabilities."""
    logits -= logits.max(axis=1, keepdims=True)
    chosen = logits[np.arange(len(targets)), targets]
    np.exp(logits, out=logits)
    sums = logits.sum(axis=1)
    loss = float((np.log(sums) - chosen).mean())
    logits /= sums[:, None]
    return loss
