"""The trainer port: what a trainer's config asks for, and how the platform's facts are put into it.

An adapter is pure: no files, no network. It stands beside the data because the plan and the job's init command both
use it. A new trainer is one module with one adapter, one line in `tasks/pod/trainers/table.py`, tests, and a page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a config.

    Args:
        key: dotted key, such as "optim.lr".
        reason: what is wrong with it.
        remedy: what to write instead.
    """

    key: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.key}: {self.reason} {self.remedy}"


@dataclass(frozen=True)
class Needs:
    """What a valid config asks of the platform.

    Args:
        model: `/volume/…`, or a Hub id with an optional `@revision`.
        dataset: `/volume/…` or `datasets/<name>[/<version>]`; None where the trainer makes its own.
        max_steps: counted from the start of the original training; None where the config sets no end.
        resume: the step directory to continue from, as `/volume/…`; None for a fresh start.
        checkpoint_every: steps between checkpoints; None for one at the end, 0 for none at all.
        keep_last: checkpoints that the trainer itself keeps; None for all.
        schedule: of the learning rate, where a resumed run takes the checkpoint's over as it was: "constant", or its
            name; None where it begins anew, or where that is not known.
        schedule_remedy: what to write so that it begins anew; empty where that can not be had.
        formats: of the dataset's files that it reads: "jsonl", "parquet"; empty where that is not known.
        columns: sets of columns, of which each row must have one; empty where that is not known.
        gpus: GPUs a node that the config itself asks for; None where it says nothing of them.
        one_node: it can not be trained on several nodes.
        weights_only: its checkpoints hold no optimizer: a run can neither be resumed from them nor forked.
    """

    model: str
    dataset: str | None
    max_steps: int | None
    resume: str | None = None
    checkpoint_every: int | None = None
    keep_last: int | None = None
    schedule: str | None = None
    schedule_remedy: str = ""
    formats: tuple[str, ...] = ()
    columns: tuple[tuple[str, ...], ...] = ()
    gpus: int | None = None
    one_node: bool = False
    weights_only: bool = False


@dataclass(frozen=True)
class ModelSize:
    """How large a model is.

    Args:
        linear: last part of a linear layer's name ("q_proj") → rows and columns of all those layers, added up; None
            where its weights can not be looked at yet.
    """

    parameters: int
    linear: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Places:
    """Where the platform put things: absolute paths as the trainer sees them.

    Args:
        weights: directory of Hugging Face-format weights.
        dataset: directory of the dataset version; None if there is none.
        output: the run's own directory, the only one that it can write besides scratch.
        resume: step directory to continue from; None for a fresh start.
        scratch: private to the attempt, gone with it.
        gpus: GPUs a node.
        nodes: how many nodes there are.
    """

    weights: str
    dataset: str | None
    output: str
    resume: str | None
    scratch: str
    gpus: int = 0
    nodes: int = 1


class Adapter(Protocol):
    """One trainer.

    Attributes:
        kind: its name in blocks, settings and records.
        config_name: file name of the rendered config.
        checkpoint_format: name from the table of checkpoint formats; None to find it by content.
        checkpoints: directory of the step directories, relative to the run's.
        metrics: file of JSON lines with a step each (see `tasks.pod.metrics`), relative to the run's directory.
    """

    kind: str
    checkpoint_format: str | None
    checkpoints: str
    metrics: str

    @property
    def config_name(self) -> str: ...

    def configured(self, options: Mapping[str, Any]) -> "Adapter":
        """This adapter as a team has set it up in slipway.toml or in the trainer's block.

        Raises: BadInputError: an option that there is not, or a value that it can not have.
        """
        ...

    def parse(self, text: str) -> dict[str, Any]:
        """Raises: BadInputError with line and column if the text is malformed."""
        ...

    def problems(self, config: Mapping[str, Any]) -> list[Problem]:
        """Everything that is wrong with a config, unknown keys with the nearest known one included."""
        ...

    def needs(self, config: Mapping[str, Any]) -> Needs:
        """What a config without problems asks for."""
        ...

    def without_resume(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The config without the checkpoint that it continues from: what a fork inherits."""
        ...

    def with_model(self, config: Mapping[str, Any], model: str) -> dict[str, Any]:
        """The config with another base model, wherever it names one.

        Args:
            model: `/volume/…`, or a Hub id with an optional `@revision`.
        """
        ...

    def render(self, config: Mapping[str, Any], places: Places) -> str:
        """The final config: what the platform must set is set, everything else is as it was given."""
        ...

    def programs(self, config: Mapping[str, Any], places: Places) -> Mapping[str, str]:
        """Files that `command` needs beside the config, by name: most need none."""
        ...

    def command(self, config: Mapping[str, Any], config_path: str, gpus: int, nodes: int) -> Sequence[str]:
        """Program and arguments that train with the rendered config, started once on every node.

        What `programs` made lies beside the config. On several nodes the job's environment has NODE_RANK, MASTER_ADDR
        and MASTER_PORT, and the same for torchrun as PET_NODE_RANK, PET_MASTER_ADDR and PET_MASTER_PORT.

        Args:
            gpus: GPUs a node; 0 for one process on CPUs.
        """
        ...

    def ranks(self, gpus: int, nodes: int) -> int:
        """How many ranks `command` makes: the world size that checkpoints are saved with."""
        ...

    def reshards(self, config: Mapping[str, Any]) -> bool:
        """Whether a checkpoint of such a config can be continued on another number of ranks."""
        ...

    def checkpoint_bytes(self, config: Mapping[str, Any], model: ModelSize) -> int | None:
        """How many bytes a checkpoint takes; None where that can not be told beforehand."""
        ...

    def own_schema(self) -> tuple[str, str] | None:
        """A Python that has the trainer, and a script for it: it takes the rendered config on standard input, and its
        last line is a JSON list of [key, what the trainer's own schema has against it]. None where there is none."""
        ...

    def step_directory(self, step: int) -> str:
        """Path of a step's checkpoint, relative to the run's directory."""
        ...
