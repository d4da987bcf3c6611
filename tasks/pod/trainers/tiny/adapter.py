"""The adapter of the tiny trainer, which exists to exercise everything else for real: see `program.py`."""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tomli_w

from tasks.pod.trainers.adapter import Needs, Places, Problem
from tasks.pod.trainers.schema import OURS, check
from tasks.pod.trainers.tiny.settings import SCHEMA, Settings, step_of
from tasks.pod.trainers.toml_config import parse

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_HUB_ID = re.compile(rf"{_NAME}/{_NAME}(@[A-Za-z0-9][A-Za-z0-9._/-]*)?")
_DATASET = re.compile(rf"(?P<volume>/volume/)?(?P<path>datasets/{_NAME}(/(?P<version>{_NAME}))?)")
_NEW_SCHEDULE = "Set [ckpt] skip_scheduler = true: a new schedule begins over the steps that are left."


class Tiny:
    """Pure: see `tasks.pod.trainers.adapter`."""

    kind: str = "tiny"
    config_name: str = "config.toml"
    checkpoint_format: str | None = "tiny"
    checkpoints: str = "checkpoints"
    metrics: str = "metrics.jsonl"
    reshards: bool = False

    def parse(self, text: str) -> dict[str, Any]:
        """Raises: BadInputError with line and column if the text is malformed."""
        return parse(text)

    def problems(self, config: Mapping[str, Any]) -> list[Problem]:
        """Everything that is wrong with a config; empty if it can be trained with."""
        problems = check(config, SCHEMA)
        wrong = {problem.key for problem in problems}
        return problems + [problem for problem in _meaning(config) if problem.key not in wrong]

    def needs(self, config: Mapping[str, Any]) -> Needs:
        """What a config without problems asks for."""
        settings = Settings.of(config)
        return Needs(
            model=settings.model.rstrip("/"),
            dataset=_dataset(settings.dataset),
            max_steps=settings.max_steps,
            resume=settings.resume.rstrip("/") if settings.resume else None,
            checkpoint_every=settings.interval if settings.saves else 0,
            keep_last=settings.keep_last,
            schedule=None if settings.skip_scheduler else settings.scheduler,
            schedule_remedy=_NEW_SCHEDULE,
            formats=("jsonl",),
            columns=(("text",), ("prompt", "completion")),
        )

    def render(self, config: Mapping[str, Any], places: Places) -> str:
        """The config with the platform's places set and its keys gone; the rest is as it was given."""
        final = copy.deepcopy({key: value for key, value in config.items() if key not in OURS})
        final["output_dir"] = places.output
        final.setdefault("model", {})["name"] = places.weights
        if places.dataset is not None:
            final.setdefault("data", {})["name"] = places.dataset
        final.pop("resume", None)
        if places.resume is not None:
            final["resume"] = {"dir": places.resume}
        return tomli_w.dumps(final)

    def command(self, config_path: str, gpus: int, nodes: int) -> Sequence[str]:
        """One process on one core, whatever it is given."""
        return ("python", "-m", "tasks.pod.trainers.tiny.program", "@", config_path)

    def ranks(self, gpus: int, nodes: int) -> int:
        return 1

    def step_directory(self, step: int) -> str:
        return f"{self.checkpoints}/step_{step}"


def _meaning(config: Mapping[str, Any]) -> Iterator[Problem]:
    """What the types can not say. Values of a wrong type are passed over: they have been named already."""
    model = _text(config, "model", "name")
    if model.startswith("/volume/"):
        yield from _outside("model.name", model)
    elif model and not _HUB_ID.fullmatch(model):
        yield Problem(
            "model.name",
            f"is neither a path on the volume nor a Hub id: {model!r}.",
            "Write /volume/models/NAME, or org/name or org/name@revision.",
        )
    dataset = _text(config, "data", "name")
    if dataset and not _DATASET.fullmatch(dataset.rstrip("/")):
        yield Problem(
            "data.name",
            f"is no dataset on the volume: {dataset!r}.",
            "Stage it, and write datasets/NAME or datasets/NAME/VERSION.",
        )
    resume = config.get("resume")
    if isinstance(resume, Mapping) and "dir" not in resume:
        yield Problem("resume.dir", "is missing.", "Add a checkpoint's step directory, or remove [resume].")
    yield from _resumes(_text(config, "resume", "dir"), config.get("max_steps"))


def _resumes(directory: str, max_steps: Any) -> Iterator[Problem]:
    if not directory:
        return
    example = "/volume/runs/RUN/checkpoints/step_100"
    step = step_of(directory)
    if step is None or step < 1:
        yield Problem(
            "resume.dir",
            f"has to end in step_<digits>, ends in {directory.rstrip('/').rpartition('/')[2]!r}.",
            f"Name a checkpoint's step directory, such as {example}.",
        )
    elif not directory.startswith("/volume/"):
        yield Problem("resume.dir", f"is not on the volume: {directory!r}.", f"Write it as in {example}.")
    else:
        yield from _outside("resume.dir", directory)
    if step is not None and isinstance(max_steps, int) and max_steps <= step:
        yield Problem(
            "max_steps",
            f"is {max_steps}, and the checkpoint to continue from is at step {step} already.",
            f"It counts from the start of the original training: set it above {step}.",
        )


def _outside(key: str, path: str) -> Iterator[Problem]:
    if ".." in path.split("/") or any(ord(character) < 32 for character in path) or not path.strip("/"):
        yield Problem(key, f"is no plain path: {path!r}.", "Write it without '..' and control characters.")


def _dataset(name: str) -> str:
    """`/volume/datasets/<name>/<version>`, or `datasets/<name>` where no version is said."""
    match = _DATASET.fullmatch(name.rstrip("/"))
    assert match is not None, name
    return name.rstrip("/") if match["version"] else match["path"]


def _text(config: Mapping[str, Any], table: str, key: str) -> str:
    value = config[table].get(key) if isinstance(config.get(table), Mapping) else None
    return value if isinstance(value, str) else ""
