"""The adapter of the tiny trainer, which exists to exercise everything else for real: see `program.py`."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tomli_w

from tasks.pod.trainers.adapter import ModelSize, Needs, Places, Problem
from tasks.pod.trainers.base import Base, without
from tasks.pod.trainers.references import dataset_needed, dataset_problems, model_problems, resume_problems
from tasks.pod.trainers.schema import OURS, check
from tasks.pod.trainers.tiny.settings import SCHEMA, Settings
from tasks.pod.trainers.toml_config import parse, set_keys

_HEADERS = 8 << 10
_NEW_SCHEDULE = "Set [ckpt] skip_scheduler = true: a new schedule begins over the steps that are left."


class Tiny(Base):
    """Pure: see `tasks.pod.trainers.adapter`."""

    kind: str = "tiny"
    config_name: str = "config.toml"
    checkpoint_format: str | None = "tiny"
    checkpoints: str = "checkpoints"
    metrics: str = "metrics.jsonl"

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
            dataset=dataset_needed(settings.dataset),
            max_steps=settings.max_steps,
            resume=settings.resume.rstrip("/") if settings.resume else None,
            checkpoint_every=settings.interval if settings.saves else 0,
            keep_last=settings.keep_last,
            schedule=None if settings.skip_scheduler else settings.scheduler,
            schedule_remedy=_NEW_SCHEDULE,
            formats=("jsonl",),
            columns=(("text",), ("prompt", "completion")),
        )

    def without_resume(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return without(config, "resume")

    def with_model(self, config: Mapping[str, Any], model: str) -> dict[str, Any]:
        return set_keys(config, {"model.name": model})

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

    def command(self, config: Mapping[str, Any], config_path: str, gpus: int, nodes: int) -> Sequence[str]:
        """One process on one core, whatever it is given."""
        return ("python", "-m", "tasks.pod.trainers.tiny.program", "@", config_path)

    def ranks(self, gpus: int, nodes: int) -> int:
        return 1

    def checkpoint_bytes(self, config: Mapping[str, Any], model: ModelSize) -> int | None:
        """Weights and AdamW's two moments as float32, and what headers and the state add."""
        return 3 * 4 * model.parameters + _HEADERS

    def step_directory(self, step: int) -> str:
        return f"{self.checkpoints}/step_{step}"


def _meaning(config: Mapping[str, Any]) -> Iterator[Problem]:
    """What the types can not say. Values of a wrong type are passed over: they have been named already."""
    yield from model_problems("model.name", _text(config, "model", "name"))
    yield from dataset_problems("data.name", _text(config, "data", "name"))
    resume = config.get("resume")
    if isinstance(resume, Mapping) and "dir" not in resume:
        yield Problem("resume.dir", "is missing.", "Add a checkpoint's step directory, or remove [resume].")
    yield from resume_problems("resume.dir", _text(config, "resume", "dir"), config.get("max_steps"))


def _text(config: Mapping[str, Any], table: str, key: str) -> str:
    value = config[table].get(key) if isinstance(config.get(table), Mapping) else None
    return value if isinstance(value, str) else ""
