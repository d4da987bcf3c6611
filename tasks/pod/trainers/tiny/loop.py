"""The training loop: weights and data in, metrics and checkpoints out, from step 0 or a checkpoint."""

import math
import time
from pathlib import Path

from tasks.pod.errors import BadInputError, NoSpaceError, NotThereError, PodError
from tasks.pod.trainers.schema import check
from tasks.pod.trainers.tiny.checkpoint import Progress, load_step, save_step, steps_in, thin_out
from tasks.pod.trainers.tiny.corpus import Corpus, Order, read_corpus
from tasks.pod.trainers.tiny.metrics import Metrics, drop_after
from tasks.pod.trainers.tiny.network import Parameters, gradients_of, loss_of
from tasks.pod.trainers.tiny.optimizer import AdamW
from tasks.pod.trainers.tiny.settings import SCHEMA, Settings, step_of
from tasks.pod.trainers.tiny.weights import read_sizes, read_weights
from tasks.pod.trainers.toml_config import parse

HELD_OUT = 1024
"""Bytes that the held-out loss is measured on."""

FULL = (28, 122)
"""ENOSPC and EDQUOT."""


def train(config_path: Path) -> None:
    """Train as a rendered config says.

    Raises:
        PodError: what was staged, or the checkpoint to continue from, or the config can not be trained with;
            or the volume is full, with a step directory without marker left behind.
    """
    settings = read_settings(config_path)
    output = Path(settings.output or "")
    checkpoints = output / "checkpoints"
    if settings.resume is None and (steps := steps_in(checkpoints)):
        raise PodError(
            f"{output} has checkpoints already, the newest of step {steps[-1]}, and [resume] is not set.",
            "Set [resume].dir to continue from one, or give the run another output_dir.",
        )

    sizes = read_sizes(Path(settings.model))
    corpus, held_out = read_corpus(Path(settings.dataset), sizes.context_size)
    order = order_of(corpus, settings)
    optimizer = AdamW(sizes, settings.lr, settings.betas, settings.weight_decay)
    if settings.resume is None:
        parameters, step, tokens = read_weights(Path(settings.model), sizes), 0, 0
    else:
        parameters = Parameters(sizes)
        progress = load_step(Path(settings.resume), parameters, optimizer)
        step, tokens = progress.step, progress.tokens
        refuse_resume(settings, step)
        print(f"continues from step {step}: {settings.resume}", flush=True)
        if not order.go_on(progress.order):
            print("the dataset or seq_len is another one now: a new pass over it begins", flush=True)
    gradients = Parameters(sizes)
    shown = max(1, (settings.max_steps - step) // 500)

    output.mkdir(parents=True, exist_ok=True)
    drop_after(output / "metrics.jsonl", step)
    metrics = Metrics(output / "metrics.jsonl")
    print(f"trains {sizes.parameters:,} parameters to step {settings.max_steps}", flush=True)
    while step < settings.max_steps:
        step += 1
        time.sleep(settings.step_seconds)
        began = time.monotonic()
        windows = order.take(settings.batch_size)
        contexts, targets = corpus.at(corpus.within(windows, settings.seq_len), sizes.context_size)
        loss = gradients_of(parameters, contexts, targets, gradients)
        if not math.isfinite(loss):
            raise PodError(f"The loss is {loss} at step {step}.", "Lower [optim].lr, or continue from an earlier step.")
        optimizer.update(parameters, gradients, step)
        tokens += len(targets)

        last = step == settings.max_steps
        saves = settings.saves and (last or (settings.interval is not None and step % settings.interval == 0))
        line = {"step": step, "loss": loss, "lr": settings.lr, "tokens": tokens}
        if held_out is not None and (saves or last):
            line["val_loss"] = loss_of(parameters, *held_out.at(held_out.targets[:HELD_OUT], sizes.context_size))
        seconds = time.monotonic() - began
        try:
            metrics.add({**line, "seconds": round(seconds, 6), "time": round(time.time(), 3)})
            if saves:
                save_step(checkpoints, parameters, optimizer, Progress(step, tokens, order.as_json()))
        except OSError as error:
            if error.errno not in FULL:
                raise
            doing = f"saving step {step}" if saves else f"writing the metrics of step {step}"
            raise NoSpaceError(
                f"The volume is full while {doing}.",
                "Grow it, prune checkpoints, or keep fewer with [ckpt].keep_last.",
            ) from error
        if last or step % shown == 0:
            print(
                f"step {step}/{settings.max_steps}  loss {loss:.4f}  lr {settings.lr:g}  {seconds:.3f} s",
                flush=True,
            )
        if saves:
            print(f"checkpoint of step {step} saved", flush=True)
            for gone in thin_out(checkpoints, step, settings.keep_last, settings.keep_interval):
                print(f"checkpoint of step {gone} removed", flush=True)


def read_settings(config_path: Path) -> Settings:
    """Raises: NotThereError if there is no config; BadInputError naming the first problem of it."""
    try:
        config = parse(config_path.read_bytes(), str(config_path))
    except FileNotFoundError as error:
        raise NotThereError(f"There is no config {config_path}.", "Name a rendered config.") from error
    problems = check(config, SCHEMA)
    if problems:
        raise BadInputError(f"{config_path}: {problems[0].key}: {problems[0].reason}", problems[0].remedy)
    if "output_dir" not in config:
        raise BadInputError(f"{config_path}: output_dir: is missing.", "Name the directory to write to.")
    return Settings.of(config)


def refuse_resume(settings: Settings, step: int) -> None:
    """Raises: PodError if the directory's name tells another step than its state, or nothing is left to do."""
    if step_of(settings.resume or "") != step:
        raise PodError(
            f"{settings.resume} is a checkpoint of step {step}.",
            f"Its directory has to be named step_{step}.",
        )
    if settings.max_steps <= step:
        raise BadInputError(
            f"max_steps is {settings.max_steps}, and {settings.resume} is at step {step} already.",
            f"It counts from the start of the original training: set it above {step}.",
        )


def order_of(corpus: Corpus, settings: Settings) -> Order:
    """Raises: PodError if the corpus is shorter than one sequence."""
    windows = len(corpus.targets) // settings.seq_len
    if windows == 0:
        raise PodError(
            f"The dataset at {settings.dataset} has {len(corpus.targets)} bytes to learn from, "
            f"and [data].seq_len is {settings.seq_len}.",
            "Stage more data, or lower [data].seq_len.",
        )
    return Order(windows, corpus.digest(settings.seq_len), settings.seed)
