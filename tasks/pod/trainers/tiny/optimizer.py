"""AdamW (Loshchilov and Hutter 2019) over one flat array, in place."""

import numpy as np

from tasks.pod.trainers.tiny.network import Array, Parameters, Sizes


class AdamW:
    """Moments of a model's parameters.

    Args:
        sizes: of the model.
        lr: learning rate.
        betas: decay of the first and second moment.
        weight_decay: decoupled, per step times lr.
    """

    def __init__(self, sizes: Sizes, lr: float, betas: tuple[float, float], weight_decay: float) -> None:
        self.lr, self.betas, self.weight_decay = lr, betas, weight_decay
        self.first = Parameters(sizes)
        self.second = Parameters(sizes)
        self._work: Array = np.empty_like(self.first.flat)

    def update(self, parameters: Parameters, gradients: Parameters, step: int) -> None:
        """Take one step; `step` counts from 1 and corrects the bias of young moments."""
        first, second, work = self.first.flat, self.second.flat, self._work
        for moment, beta, power in ((first, self.betas[0], 1), (second, self.betas[1], 2)):
            np.multiply(gradients.flat, np.float32(1 - beta), out=work)
            if power == 2:
                work *= gradients.flat
            moment *= np.float32(beta)
            moment += work
        np.divide(second, np.float32(1 - self.betas[1] ** step), out=work)
        np.sqrt(work, out=work)
        work += np.float32(1e-8)
        np.divide(first, work, out=work)
        work *= np.float32(self.lr / (1 - self.betas[0] ** step))
        parameters.flat *= np.float32(1 - self.lr * self.weight_decay)
        parameters.flat -= work
