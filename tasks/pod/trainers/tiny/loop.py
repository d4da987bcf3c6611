"""The training loop: weights and data in, metrics and checkpoints out, from the start or from a checkpoint."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.pod.errors import BadInputError, NoSpaceError, NotThereError, PodError
from tasks.pod.reserve import is_full
from tasks.pod.trainers.schema import check
from tasks.pod.trainers.tiny.checkpoint import steps_in, thin_out
from tasks.pod.trainers.tiny.metrics import Metrics, drop_after
from tasks.pod.trainers.tiny.settings import SCHEMA, Settings
from tasks.pod.trainers.tiny.training import Training
from tasks.pod.trainers.toml_config import parse


def train(config_path: Path) -> None:
    """Train as a rendered config says.

    Raises:
        PodError: the config, what was staged, or the checkpoint to continue from can not be trained with; or the volume
            is full, and the directory of the step that was being saved has no marker.
    """
    settings, output = read_settings(config_path)
    checkpoints = output / "checkpoints"
    if settings.resume is None and (steps := steps_in(checkpoints)):
        raise PodError(
            f"{output} has checkpoints already, the newest of step {steps[-1]}, and [resume] is not set.",
            "Set [resume].dir to continue from one, or give the run another output_dir.",
        )
    training = Training(settings)
    print(f"trains {training.sizes.parameters:,} parameters to step {settings.max_steps}", flush=True)
    shown = max(1, (settings.max_steps - training.step) // 500)
    with told_when_full("starting"):
        output.mkdir(parents=True, exist_ok=True)
        drop_after(output / "metrics.jsonl", training.step)
        metrics = Metrics(output / "metrics.jsonl")

    while training.step < settings.max_steps:
        time.sleep(settings.step_seconds)
        began = time.monotonic()
        loss = training.advance()
        step = training.step
        saves = settings.saves_at(step)
        line = {"step": step, "loss": loss, "lr": training.optimizer.lr, "tokens": training.tokens}
        if saves and (held_out := training.held_out_loss()) is not None:
            line["val_loss"] = held_out
        seconds = time.monotonic() - began
        with told_when_full(f"writing the metrics of step {step}"):
            metrics.add({**line, "seconds": round(seconds, 6), "time": round(time.time(), 3)})
        if step % shown == 0 or step == settings.max_steps:
            print(
                f"step {step}/{settings.max_steps}  loss {loss:.4f}  lr {training.optimizer.lr:g}  {seconds:.3f} s",
                flush=True,
            )
        if saves:
            with told_when_full(f"saving step {step}"):
                training.save(checkpoints)
            print(f"checkpoint of step {step} saved", flush=True)
            for gone in thin_out(checkpoints, step, settings.keep_last, settings.keep_interval):
                print(f"checkpoint of step {gone} removed", flush=True)


def read_settings(config_path: Path) -> tuple[Settings, Path]:
    """The settings and the output directory.

    Raises:
        NotThereError: there is no config.
        BadInputError: names the first problem of it.
    """
    try:
        config = parse(config_path.read_bytes(), str(config_path))
    except FileNotFoundError as error:
        raise NotThereError(f"There is no config {config_path}.", "Name a rendered config.") from error
    problems = check(config, SCHEMA)
    if problems:
        raise BadInputError(f"{config_path}: {problems[0].key}: {problems[0].reason}", problems[0].remedy)
    settings = Settings.of(config)
    if settings.output is None:
        raise BadInputError(f"{config_path}: output_dir: is missing.", "Name the directory to write to.")
    return settings, Path(settings.output)


@contextmanager
def told_when_full(doing: str) -> Iterator[None]:
    """Raises: NoSpaceError saying what was being done, in place of an OSError of a full disk or quota."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        raise NoSpaceError(
            f"The volume is full while {doing}.", "Grow it, prune checkpoints, or keep fewer with [ckpt].keep_last."
        ) from error
