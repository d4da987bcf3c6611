"""The adapter for any program: a command with named places, and where its config keeps what the platform sets."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.pod.checkpoints import table as formats
from tasks.pod.errors import BadInputError
from tasks.pod.trainers.adapter import ModelSize, Needs, Places, Problem
from tasks.pod.trainers.base import Base
from tasks.pod.trainers.config_text import Syntax, dump, parse
from tasks.pod.trainers.references import dataset_needed, dataset_problems, model_problems, resume_problems
from tasks.pod.trainers.schema import OURS, Key
from tasks.pod.trainers.toml_config import set_keys

_SCRIPT = "command.sh"
_PLACE = re.compile(r"\{([a-z_]+)\}")
_PLACES = frozenset({"config", "weights", "dataset", "output", "resume", "scratch", "gpus", "nodes", "processes"})
_OF_THE_NODE = {"node_rank": '"$NODE_RANK"', "master_addr": '"$MASTER_ADDR"', "master_port": '"$MASTER_PORT"'}
_TEXT = Key("text", '"model.path"')


class Command(Base):
    """Pure: see `tasks.pod.trainers.adapter`. Without options it can do nothing."""

    kind: str = "command"
    options: Mapping[str, Key] = {
        "command": Key("array", '["python", "train.py", "{config}"]', required=True),
        "keys": Key("table", '{ model = "model.path" }', required=True),
        "syntax": Key("text", '"yaml"', one_of=("toml", "yaml", "json")),
        "checkpoint_format": Key("text", '"hf-trainer"'),
        "checkpoints": Key("text", '"checkpoints"'),
        "step_directory": Key("text", '"step_{step}"'),
        "metrics": Key("text", '"metrics.jsonl"'),
        "reshards": Key("boolean", "true"),
        "bytes_per_parameter": Key("number", "12", above=0),
    }

    def __init__(
        self,
        command: Sequence[str | Sequence[str]] = (),
        keys: Mapping[str, str] | None = None,
        syntax: Syntax = "toml",
        checkpoint_format: str | None = None,
        checkpoints: str = "checkpoints",
        step_directory: str = "step_{step}",
        metrics: str = "metrics.jsonl",
        reshards: bool = False,
        bytes_per_parameter: float | None = None,
    ) -> None:
        """
        Args:
            command: arguments with named places, such as "{config}"; a list among them is left out as a whole where a
                place in it is empty, such as ["--resume", "{resume}"].
            keys: what → the dotted key of the config that has it: "model" (always), "dataset", "output", "resume",
                "max_steps", "checkpoint_every", "keep_last", "scratch".
            syntax: of the config.
            checkpoint_format: a name from the table of formats; None to find it by content.
            checkpoints: directory of the steps, relative to the run's.
            step_directory: name of a step's directory.
            metrics: file of JSON lines, relative to the run's directory.
            reshards: a checkpoint can be continued on another number of ranks.
            bytes_per_parameter: of a checkpoint; None where that is not known.
        """
        self.template, self.keys, self.syntax = tuple(command), dict(keys or {}), syntax
        self.checkpoint_format, self.checkpoints, self.metrics = checkpoint_format, checkpoints, metrics
        self.step_name, self.does_reshard, self.bytes_per_parameter = step_directory, reshards, bytes_per_parameter

    @property
    def config_name(self) -> str:
        return f"config.{self.syntax}"

    def configured(self, options: Mapping[str, Any]) -> "Command":
        """Raises: BadInputError: an option that there is not, or a value that it can not have."""
        super().configured(options)
        for argument in options["command"]:
            for word in argument if isinstance(argument, list) else [argument]:
                self._check_word(word)
        known = ("model", "dataset", "output", "resume", "max_steps", "checkpoint_every", "keep_last", "scratch")
        for name, key in options["keys"].items():
            if name not in known or not _TEXT.accepts(key):
                said = f"Trainer command, option keys.{name}: is no place of a config that there is, or no dotted key."
                raise BadInputError(said, f"Known: {', '.join(known)}.")
        if "model" not in options["keys"]:
            raise BadInputError("Trainer command, option keys.model: is missing.", 'Add model = "model.path".')
        if named := options.get("checkpoint_format"):
            formats.named(named)
        if "{step}" not in options.get("step_directory", "{step}"):
            raise BadInputError("Trainer command, option step_directory: names no {step}.", 'Write "step_{step}".')
        return self._with(options)

    def _with(self, options: Mapping[str, Any]) -> "Command":
        return Command(**options)

    def _check_word(self, word: Any) -> None:
        if not isinstance(word, str):
            raise BadInputError(f"Trainer command, option command: {word!r} is no text.", "Put it in quotes.")
        for name in _PLACE.findall(word):
            if name not in _PLACES and name not in _OF_THE_NODE:
                known = ", ".join(sorted({*_PLACES, *_OF_THE_NODE}))
                raise BadInputError(
                    f"Trainer command, option command: there is no place {{{name}}}.", f"Known: {known}."
                )

    def parse(self, text: str) -> dict[str, Any]:
        return parse(text, self.syntax)

    def problems(self, config: Mapping[str, Any]) -> list[Problem]:
        if not self.template:
            remedy = 'Add command = ["python", "train.py", "{config}"] to its options, and keys = { model = "…" }.'
            return [Problem("trainer", "has no command.", remedy)]
        return list(self._problems(config))

    def _problems(self, config: Mapping[str, Any]) -> Iterator[Problem]:
        model, dataset, resume = (self._get(config, name) for name in ("model", "dataset", "resume"))
        if not isinstance(model, str) or not model.strip():
            yield Problem(self.keys["model"], "is missing, or is no text.", "Write /volume/models/NAME or org/name.")
        else:
            yield from model_problems(self.keys["model"], model)
        if "dataset" in self.keys and isinstance(dataset, str):
            yield from dataset_problems(self.keys["dataset"], dataset)
        elif dataset is not None:
            yield Problem(self.keys["dataset"], f"must be text, is {dataset!r}.", "Write datasets/NAME.")
        for name in ("max_steps", "checkpoint_every", "keep_last"):
            value = self._get(config, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                reason = f"must be a whole number of at least 1, is {value!r}."
                yield Problem(self.keys[name], reason, "Write for example 100.")
        if isinstance(resume, str):
            prefix, home = self.step_name.partition("{step}")[0], f"{self.checkpoints.strip('/.')}/".lstrip("/")
            steps = self.keys.get("max_steps", "max_steps")
            yield from resume_problems(
                self.keys["resume"], resume, self._get(config, "max_steps"), prefix=prefix, home=home, steps=steps
            )

    def needs(self, config: Mapping[str, Any]) -> Needs:
        dataset, resume = self._get(config, "dataset"), self._get(config, "resume")
        every = self._get(config, "checkpoint_every")
        return Needs(
            model=str(self._get(config, "model")).rstrip("/"),
            dataset=dataset_needed(dataset) if dataset else None,
            max_steps=self._get(config, "max_steps"),
            resume=resume.rstrip("/") if resume else None,
            checkpoint_every=every,
            keep_last=self._get(config, "keep_last"),
        )

    def without_resume(self, config: Mapping[str, Any]) -> dict[str, Any]:
        if self._get(config, "resume") is None:
            return dict(config)
        return _without(config, self.keys["resume"].split("."))

    def with_model(self, config: Mapping[str, Any], model: str) -> dict[str, Any]:
        return set_keys(config, {self.keys["model"]: model} if self.keys else {})

    def render(self, config: Mapping[str, Any], places: Places) -> str:
        final = self.without_resume({key: value for key, value in config.items() if key not in OURS})
        values = {
            "model": places.weights,
            "dataset": places.dataset,
            "output": places.output,
            "resume": places.resume,
            "scratch": places.scratch,
        }
        put = {self.keys[name]: value for name, value in values.items() if name in self.keys and value is not None}
        return dump(set_keys(final, put), self.syntax)

    def programs(self, config: Mapping[str, Any], places: Places) -> Mapping[str, str]:
        """The command as a shell script, every value quoted: the places are only known beside the data."""
        values = {
            "config": f"{places.scratch}/{self.config_name}",
            "weights": places.weights,
            "dataset": places.dataset or "",
            "output": places.output,
            "resume": places.resume or "",
            "scratch": places.scratch,
            "gpus": str(places.gpus),
            "nodes": str(places.nodes),
            "processes": str(max(1, places.gpus) * places.nodes),
        }
        words: list[str] = []
        for argument in self.template:
            group = [argument] if isinstance(argument, str) else list(argument)
            used = [name for word in group for name in _PLACE.findall(word)]
            if isinstance(argument, str) or all(values.get(name, "…") for name in used):
                words += [_quoted(word, values) for word in group]
        return {_SCRIPT: f"exec {' '.join(words)}\n"}

    def command(self, config: Mapping[str, Any], config_path: str, gpus: int, nodes: int) -> Sequence[str]:
        return ("sh", f"{config_path.rpartition('/')[0]}/{_SCRIPT}")

    def checkpoint_bytes(self, config: Mapping[str, Any], model: ModelSize) -> int | None:
        return int(self.bytes_per_parameter * model.parameters) if self.bytes_per_parameter else None

    def reshards(self, config: Mapping[str, Any]) -> bool:
        return self.does_reshard

    def step_directory(self, step: int) -> str:
        return f"{self.checkpoints.rstrip('/')}/{self.step_name.replace('{step}', str(step))}".removeprefix("./")

    def _get(self, config: Mapping[str, Any], name: str) -> Any:
        place: Any = config
        for part in self.keys.get(name, "").split("."):
            place = place.get(part) if isinstance(place, Mapping) else None
        return place


def _without(config: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    first, rest = path[0], path[1:]
    if not rest:
        return {key: value for key, value in config.items() if key != first}
    return {key: _without(value, rest) if key == first else value for key, value in config.items()}


def _quoted(word: str, values: Mapping[str, str]) -> str:
    pieces, at = [], 0
    for found in _PLACE.finditer(word):
        pieces.append(shlex.quote(word[at : found.start()]) if at < found.start() else "")
        pieces.append(_OF_THE_NODE.get(found[1]) or shlex.quote(values[found[1]]))
        at = found.end()
    pieces.append(shlex.quote(word[at:]) if at < len(word) or not pieces else "")
    return "".join(pieces)
