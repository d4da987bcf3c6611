"""The tiny trainer's config: which keys there are, and what they mean where they are left out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.pod.trainers.schema import Key
from tasks.pod.trainers.tiny.schedule import TYPES

SCHEMA: Mapping[str, Key] = {
    "max_steps": Key("integer", "100", required=True, at_least=1),
    "seed": Key("integer", "42", at_least=0),
    "output_dir": Key("text", '"/volume/runs/my-run"'),
    "model.name": Key("text", '"org/name@revision"', required=True),
    "data.name": Key("text", '"datasets/my-dataset"', required=True),
    "data.batch_size": Key("integer", "8", at_least=1, at_most=4096),
    "data.seq_len": Key("integer", "32", at_least=1, at_most=4096),
    "optim.lr": Key("number", "0.001", above=0),
    "optim.betas": Key("array", "[0.9, 0.999]", length=2, item=Key("number", "0.9", at_least=0, below=1)),
    "optim.weight_decay": Key("number", "0.01", at_least=0),
    "scheduler.type": Key("text", '"cosine"', one_of=TYPES),
    "ckpt.interval": Key("integer", "25", at_least=1),
    "ckpt.keep_last": Key("integer", "2", at_least=1),
    "ckpt.keep_interval": Key("integer", "100", at_least=1),
    "ckpt.skip_scheduler": Key("boolean", "true"),
    "resume.dir": Key("text", '"/volume/runs/RUN/checkpoints/step_100"'),
    "pace.step_seconds": Key("number", "0.1", at_least=0),
}
"""Every key, in the shape of prime-rl's config; `output_dir` is set by the platform."""

_STEP = re.compile(r"step_([0-9]+)")


@dataclass(frozen=True)
class Settings:
    """A config that the schema allows, with its defaults.

    Args:
        max_steps: the last step, counted from the start of the original training.
        seed: of the order of the data; on resume the checkpoint's own goes on instead.
        output: where metrics and checkpoints go; None until the platform has said so.
        model: Hugging Face-format weights.
        dataset: directory of JSON lines.
        batch_size: sequences a step.
        seq_len: predicted bytes a sequence.
        scheduler: of the learning rate; "constant" where none is named.
        skip_scheduler: on resume, begin the schedule anew over the steps that are left, instead of the checkpoint's.
        saves: whether there is a [ckpt] table; the last step is saved then.
        interval: steps between checkpoints; None for one at the end.
        keep_last: newest checkpoints to keep; None, with keep_interval None too, for all.
        keep_interval: keep the checkpoints of every so many steps as well.
        resume: step directory to continue from; None for a fresh start.
        step_seconds: sleep before each step, in seconds, so that people and crash tests can watch.
    """

    max_steps: int
    seed: int
    output: str | None
    model: str
    dataset: str
    batch_size: int
    seq_len: int
    lr: float
    betas: tuple[float, float]
    weight_decay: float
    scheduler: str
    skip_scheduler: bool
    saves: bool
    interval: int | None
    keep_last: int | None
    keep_interval: int | None
    resume: str | None
    step_seconds: float

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Settings":
        data, optim = config["data"], config.get("optim", {})
        ckpt: Mapping[str, Any] = config.get("ckpt", {})
        first, second = optim.get("betas", (0.9, 0.999))
        return cls(
            max_steps=config["max_steps"],
            seed=config.get("seed", 42),
            output=config.get("output_dir"),
            model=config["model"]["name"],
            dataset=data["name"],
            batch_size=data.get("batch_size", 8),
            seq_len=data.get("seq_len", 32),
            lr=float(optim.get("lr", 0.001)),
            betas=(float(first), float(second)),
            weight_decay=float(optim.get("weight_decay", 0.01)),
            scheduler=config.get("scheduler", {}).get("type", "constant"),
            skip_scheduler=ckpt.get("skip_scheduler", False),
            saves="ckpt" in config,
            interval=ckpt.get("interval"),
            keep_last=ckpt.get("keep_last"),
            keep_interval=ckpt.get("keep_interval"),
            resume=config.get("resume", {}).get("dir"),
            step_seconds=float(config.get("pace", {}).get("step_seconds", 0)),
        )

    def saves_at(self, step: int) -> bool:
        """Whether a checkpoint is saved after a step: at the last one and at each interval, if there is a [ckpt]."""
        at_interval = self.interval is not None and step % self.interval == 0
        return self.saves and (at_interval or step == self.max_steps)


def step_of(directory: str) -> int | None:
    """The step that a directory's name says, as `…/step_<digits>`; None if it says none."""
    match = _STEP.fullmatch(directory.rstrip("/").rpartition("/")[2])
    return int(match[1]) if match else None
