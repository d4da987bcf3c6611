"""What the trainers that build on the Hugging Face Trainer have in common: flat keys, one directory a checkpoint."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.pod.trainers import hf_arguments
from tasks.pod.trainers.adapter import ModelSize, Needs, Places, Problem
from tasks.pod.trainers.base import Base, without
from tasks.pod.trainers.config_text import Syntax, dump, parse
from tasks.pod.trainers.lora import Lora
from tasks.pod.trainers.references import model_problems, resume_problems
from tasks.pod.trainers.schema import OURS, Key, check

LAUNCHER = "slipway_launch.py"
"""Name of the file that `programs` puts beside the config: see `hf_launch.py`."""

_SAVE_STEPS = 500  # transformers' own default


class HuggingFace(Base):
    """The shared half of an adapter.

    Attributes:
        model_key, revision_key: where the config names the model, and its revision on the Hub.
        required: keys without which the trainer can not work, with an example.
        typed: keys whose values are checked, besides TrainingArguments'.
        renamed: old name → new name, of the trainer's own.
    """

    kind: str = ""
    syntax: Syntax = "yaml"
    checkpoint_format: str | None = "hf-trainer"
    checkpoints: str = "."
    metrics: str = "metrics.jsonl"
    model_key: str = "model_name_or_path"
    revision_key: str = "model_revision"
    required: Mapping[str, str] = {}
    typed: Mapping[str, Key] = {}
    renamed: Mapping[str, str] = {}

    @property
    def config_name(self) -> str:
        return f"config.{self.syntax}"

    def parse(self, text: str) -> dict[str, Any]:
        return parse(text, self.syntax)

    def problems(self, config: Mapping[str, Any]) -> list[Problem]:
        typed = {**hf_arguments.TYPED, **self.typed}
        given = {key: _as_number(value, typed.get(key)) for key, value in config.items() if value is not None}
        found = list(self._renamed(given))
        told = {problem.key for problem in found}
        found += [p for p in self._not_off(given) if p.key not in told]
        told |= {problem.key for problem in found}
        checked = {k: v for k, v in given.items() if (k in typed or k in OURS) and k not in told}
        found += check(checked, typed, toml=False)
        for key, example in self.required.items():
            if key not in given and key not in told and not self.instead(key, given):
                found.append(Problem(key, "is missing.", f"Add `{key}: {example}`."))
        told |= {problem.key for problem in found}
        more = [*self._model(given), *_contradictions(given), *self.meaning(given), *self.unknown(given)]
        return found + [problem for problem in more if problem.key not in told]

    def meaning(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        """What is wrong beyond types.

        Args:
            given: the config without what is null.
        """
        yield from ()

    def instead(self, key: str, given: Mapping[str, Any]) -> bool:
        """Whether the config has something in place of a key that it lacks."""
        return False

    def unknown(self, given: Mapping[str, Any]) -> list[Problem]:
        """Keys that the trainer does not know."""
        return []

    def dataset(self, config: Mapping[str, Any]) -> str | None:
        """What of the volume a config reads; None where the trainer makes its own data."""
        return None

    def put_dataset(self, final: dict[str, Any], path: str) -> None:
        """Put the dataset's directory into the config."""

    def needs(self, config: Mapping[str, Any]) -> Needs:
        steps = config.get("max_steps")
        model, revision = str(config[self.model_key]).rstrip("/"), config.get(self.revision_key)
        if revision and "@" not in model and not model.startswith("/volume"):
            model = f"{model}@{revision}"
        resume = config.get("resume_from_checkpoint")
        return Needs(
            model=model,
            dataset=self.dataset(config),
            max_steps=steps if isinstance(steps, int) and steps > 0 else None,
            resume=resume.rstrip("/") if isinstance(resume, str) else None,
            checkpoint_every=_every(config),
            keep_last=config.get("save_total_limit"),
            weights_only=bool(config.get("save_only_model")),
        )

    def without_resume(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return without(config, "resume_from_checkpoint", "auto_resume_from_checkpoints")

    def with_model(self, config: Mapping[str, Any], model: str) -> dict[str, Any]:
        return {**without(config, self.revision_key), self.model_key: model}

    def render(self, config: Mapping[str, Any], places: Places) -> str:
        final = without(config, *OURS, "resume_from_checkpoint")
        final["output_dir"] = places.output
        final[self.model_key] = places.weights
        if places.dataset is not None:
            self.put_dataset(final, places.dataset)
        if places.resume is not None:
            final["resume_from_checkpoint"] = places.resume
        self.settle(final, places)
        return dump(final, self.syntax)

    def settle(self, final: dict[str, Any], places: Places) -> None:
        """Set what else the platform must set."""

    def programs(self, config: Mapping[str, Any], places: Places) -> Mapping[str, str]:
        return {LAUNCHER: Path(__file__).with_name("hf_launch.py").read_text(encoding="utf-8")}

    def trains_adapters(self, config: Mapping[str, Any]) -> bool:
        """Whether only adapters, or some layers, are trained and saved."""
        return False

    def lora(self, config: Mapping[str, Any]) -> Lora | None:
        """The adapters that are trained; None where it is something else, or more than them."""
        return None

    def optimizer(self, config: Mapping[str, Any]) -> str:
        return str(config.get("optim") or "adamw")

    def checkpoint_bytes(self, config: Mapping[str, Any], model: ModelSize) -> int | None:
        """Weights as float32 (the most they take) and what the optimizer keeps of each: 12 bytes with Adam. Of
        adapters, theirs."""
        parameters: int | None = model.parameters
        if self.trains_adapters(config):
            lora = self.lora(config)
            parameters = lora.parameters(model) if lora else None
        if parameters is None:
            return None
        if config.get("save_only_model"):
            return 4 * parameters
        return int(parameters * (4 + _kept(self.optimizer(config))))

    def reshards(self, config: Mapping[str, Any]) -> bool:
        """DeepSpeed's files are one a rank; what the Trainer and FSDP save is the same for any number."""
        return not config.get("deepspeed")

    def step_directory(self, step: int) -> str:
        return f"checkpoint-{step}"

    def _renamed(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        for old, new in {**hf_arguments.RENAMED, **self.renamed}.items():
            if old in given:
                yield Problem(old, "is a name of earlier versions.", f"Write {new}.")

    def _not_off(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        for key in ("save_strategy", "eval_strategy", "logging_strategy"):
            if given.get(key) is False:
                yield Problem(key, "is false: YAML reads a bare `no` as that.", f'Put it in quotes: {key}: "no".')

    def _model(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        model, revision = given.get(self.model_key), given.get(self.revision_key)
        if model is None:
            return
        if not isinstance(model, str) or not model.strip():
            yield Problem(self.model_key, f"must be text, is {model!r}.", f"Write {self.model_key}: org/name.")
            return
        yield from model_problems(self.model_key, model)
        if revision and "@" in model:
            yield Problem(self.revision_key, f"is given, and {self.model_key} has a revision too.", "Say it once.")
        resume = given.get("resume_from_checkpoint")
        if isinstance(resume, str):
            yield from resume_problems(
                "resume_from_checkpoint", resume, given.get("max_steps"), prefix="checkpoint-", home=""
            )


def launch(arguments: Sequence[str], config_path: str, gpus: int, nodes: int, interpreter: str = "python") -> list[str]:
    """The command of a script that is started by the launcher, by torchrun where there are several processes.

    Args:
        arguments: the program, as the launcher takes it (see `hf_launch.py`), and its arguments.
    """
    launcher = f"{config_path.rpartition('/')[0]}/{LAUNCHER}"
    if max(1, gpus) * nodes == 1:
        return [interpreter, launcher, *arguments]
    where = ["--standalone"] if nodes == 1 else [f"--nnodes={nodes}"]  # the rest comes from PET_… in the environment
    start = [interpreter, "-m", "torch.distributed.run", *where, f"--nproc-per-node={max(1, gpus)}"]
    return [*start, launcher, *arguments]


def _kept(optimizer: str) -> float:
    """Bytes that an optimizer keeps of each parameter."""
    name = optimizer.lower()
    if "adafactor" in name or name in ("sgd", "lomo"):
        return 0
    if "8bit" in name:
        return 2
    return 4 if any(word in name for word in ("lion", "rmsprop", "adagrad", "muon")) else 8


def _every(config: Mapping[str, Any]) -> int | None:
    strategy, steps = config.get("save_strategy") or "steps", config.get("save_steps") or _SAVE_STEPS
    if strategy == "no":
        return 0
    return int(steps) if strategy == "steps" and steps >= 1 else None


def _as_number(value: Any, key: Key | None) -> Any:
    """A number in quotes as one: TrainingArguments takes it."""
    if key is None or key.kind not in ("number", "integer") or not isinstance(value, str):
        return value
    try:
        return float(value) if key.kind == "number" else int(value)
    except ValueError:
        return value


def _contradictions(given: Mapping[str, Any]) -> Iterator[Problem]:
    if given.get("fp16") is True and given.get("bf16") is True:
        yield Problem("fp16", "is true, and bf16 too.", "Choose one of the two.")
    if given.get("push_to_hub") is True:
        reason = "is true, and a run is offline: the push would fail after training."
        yield Problem("push_to_hub", reason, "Remove it; upload afterwards, with `slipway export`.")
    if given.get("load_best_model_at_end") is True:
        saves, evaluates = given.get("save_strategy", "steps"), given.get("eval_strategy", "no")
        if saves not in (evaluates, "best"):
            reason = f"is true, and save_strategy is {saves} while eval_strategy is {evaluates}."
            yield Problem("load_best_model_at_end", reason, "Set both strategies to the same.")
        elif (
            saves == "steps"
            and isinstance(evaluate := given.get("eval_steps"), int)
            and (_every(given) or 0) % evaluate
        ):
            reason = f"is true, and save_steps {_every(given)} is no multiple of eval_steps {evaluate}."
            yield Problem("load_best_model_at_end", reason, "Make save_steps a multiple of eval_steps.")
