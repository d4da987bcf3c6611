"""One training: parameters, moments, data and the place in them; it takes a step at a time, is saved and resumed."""

import math
from pathlib import Path

import numpy as np

from tasks.pod.errors import BadInputError, PodError
from tasks.pod.trainers.tiny.checkpoint import Progress, load_step, save_step
from tasks.pod.trainers.tiny.corpus import Corpus, Order, read_corpus
from tasks.pod.trainers.tiny.network import Parameters, gradients_of, loss_of
from tasks.pod.trainers.tiny.optimizer import AdamW
from tasks.pod.trainers.tiny.schedule import Schedule
from tasks.pod.trainers.tiny.settings import Settings, step_of
from tasks.pod.trainers.tiny.weights import read_sizes, read_weights

HELD_OUT = 1024
"""Bytes that the held-out loss is measured on."""


class Training:
    """Reads what was staged, and the checkpoint to continue from if there is one.

    Raises:
        PodError: weights, data or checkpoint can not be trained with.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.sizes = read_sizes(Path(settings.model))
        self.corpus, self.held_out = read_corpus(Path(settings.dataset), self.sizes.context_size)
        self.order = _order(self.corpus, settings)
        self.optimizer = AdamW(self.sizes, settings.lr, settings.betas, settings.weight_decay)
        self.schedule = Schedule(settings.scheduler, 0, settings.max_steps)
        self.step = self.tokens = 0
        self._gradients = Parameters(self.sizes)
        if settings.resume is None:
            self.parameters = read_weights(Path(settings.model), self.sizes)
        else:
            self.parameters = Parameters(self.sizes)
            self._resume(settings.resume)

    def advance(self) -> float:
        """Take one step and return its loss, in nats a byte.

        Raises:
            PodError: the loss is not finite, or the step left weights that are not.
        """
        self.step += 1
        self.optimizer.lr = self.settings.lr * self.schedule.factor(self.step)
        windows = self.order.take(self.settings.batch_size)
        positions = self.corpus.within(windows, self.settings.seq_len)
        contexts, targets = self.corpus.at(positions, self.sizes.context_size)
        with np.errstate(all="ignore"):  # one clear error below instead of warnings all over the log
            loss = gradients_of(self.parameters, contexts, targets, self._gradients)
            self.optimizer.update(self.parameters, self._gradients, self.step)
        if not math.isfinite(loss) or not np.isfinite(self.parameters.flat).all():
            raise PodError(
                f"The training diverged at step {self.step}, with a loss of {loss}.",
                "Lower [optim].lr, or continue from an earlier step.",
            )
        self.tokens += len(targets)
        return loss

    def held_out_loss(self) -> float | None:
        """In nats a byte; None if nothing is held out."""
        if self.held_out is None or not len(self.held_out.targets):
            return None
        contexts, targets = self.held_out.at(self.held_out.targets[:HELD_OUT], self.sizes.context_size)
        return loss_of(self.parameters, contexts, targets)

    def save(self, checkpoints: Path) -> None:
        """Raises: OSError."""
        progress = Progress(self.step, self.tokens, self.order.as_json(), self.schedule.as_json())
        save_step(checkpoints, self.parameters, self.optimizer, progress)

    def _resume(self, directory: str) -> None:
        progress = load_step(Path(directory), self.parameters, self.optimizer)
        self.step, self.tokens = progress.step, progress.tokens
        if step_of(directory) != self.step:
            raise PodError(
                f"{directory} is a checkpoint of step {self.step}.", f"Its directory has to be named step_{self.step}."
            )
        if self.settings.max_steps <= self.step:
            raise BadInputError(
                f"max_steps is {self.settings.max_steps}, and {directory} is at step {self.step} already.",
                f"It counts from the start of the original training: set it above {self.step}.",
            )
        self.schedule = Schedule.resumed(
            self.settings.scheduler,
            progress.scheduler,
            self.step,
            self.settings.max_steps,
            skip=self.settings.skip_scheduler,
        )
        print(f"continues from step {self.step}: {directory}", flush=True)
        if not self.order.go_on(progress.order):
            print("the dataset or seq_len is another one now: a new pass over it begins", flush=True)


def _order(corpus: Corpus, settings: Settings) -> Order:
    windows = len(corpus.targets) // settings.seq_len
    if windows == 0:
        raise PodError(
            f"The dataset at {settings.dataset} has {len(corpus.targets)} bytes to learn from, "
            f"and [data].seq_len is {settings.seq_len}.",
            "Stage more data, or lower [data].seq_len.",
        )
    return Order(windows, corpus.digest(settings.seq_len), settings.seed)
