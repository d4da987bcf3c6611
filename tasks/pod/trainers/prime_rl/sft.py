"""What is wrong with a prime-rl config for supervised fine-tuning, beyond the types of its values. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.pod.trainers.adapter import Problem
from tasks.pod.trainers.prime_rl.renderers import NAMES, RENDERERS
from tasks.pod.trainers.references import dataset_problems, model_problems, resume_problems

_ALONE = {
    "slurm": ("hands the run to SLURM.", "Remove it: the cluster starts the run."),
    "dry_run": ("validates and trains nothing.", "Remove it; use `slipway train --dry-run`."),
    "clean": (
        "deletes the run's directory with its checkpoints at every start.",
        "Remove it: prepare clears what is torn.",
    ),
}


def table(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A table by its dotted name; empty where there is none."""
    found: Any = config
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def text(config: Mapping[str, Any], name: str, key: str) -> str:
    value = table(config, name).get(key)
    return value if isinstance(value, str) else ""


def meaning(config: Mapping[str, Any]) -> Iterator[Problem]:
    yield from alone(config)
    model = text(config, "model", "name")
    yield from model_problems("model.name", model)
    yield from _renderer(config, model)
    tokenizer = text(config, "tokenizer", "name")
    if tokenizer and tokenizer != model and not tokenizer.startswith("/volume/"):
        reason = f"is {tokenizer!r}, which is not staged: only the model is."
        yield Problem("tokenizer.name", reason, "Remove it, or write /volume/models/NAME.")
    yield from _data(config)
    yield from _saving(config)
    yield from _schedule(config)
    deployment = table(config, "deployment")
    if deployment.get("type") == "multi_node":
        reason = "is multi_node, which prime-rl starts with SLURM only."
        yield Problem("deployment.type", reason, "Remove it: several nodes are asked for with the trainer's resources.")
    gpus, most = deployment.get("num_train_gpus", 1), deployment.get("gpus_per_node", 8)
    if isinstance(gpus, int) and isinstance(most, int) and gpus > most:
        yield Problem(
            "deployment.num_train_gpus", f"is {gpus}, and a node has {most}.", "Raise gpus_per_node, or ask for less."
        )
    if "inference" in config and "eval" not in config:
        yield Problem("inference", "is only for online evals, and there is no [eval].", "Remove it, or add [eval].")


def alone(config: Mapping[str, Any]) -> Iterator[Problem]:
    """Keys that the platform can not work with, wherever they are."""
    for key, (reason, remedy) in _ALONE.items():
        if config.get(key) not in (None, False):
            yield Problem(key, reason, remedy)
    resume = config.get("resume")
    if isinstance(resume, Mapping) and "dir" not in resume:
        reason = "leaves prime-rl to choose a step of the run itself, complete or not; the platform does that."
        key = "resume.step" if "step" in resume else "resume"
        yield Problem(key, reason, "Remove [resume], or write its dir.")
    elif isinstance(resume, Mapping) and "step" in resume:
        yield Problem("resume.step", "is given, and resume.dir too.", "Remove resume.step.")
    yield from resume_problems("resume.dir", text(config, "resume", "dir"), config.get("max_steps"))
    if "output_dir" in table(config, "ckpt"):
        reason = "puts checkpoints elsewhere than the run's directory, the only one that it can write."
        yield Problem("ckpt.output_dir", reason, "Remove it.")
    yield from _keeping(config)


def _keeping(config: Mapping[str, Any]) -> Iterator[Problem]:
    ckpt = table(config, "ckpt")
    if "keep_interval" in ckpt and "keep_last" not in ckpt:
        reason = "is given without keep_last: prime-rl would delete every checkpoint between, the newest too."
        yield Problem("ckpt.keep_interval", reason, "Add `keep_last = 2` to [ckpt].")


def _renderer(config: Mapping[str, Any], model: str) -> Iterator[Problem]:
    name = text(config, "renderer", "name")
    if table(config, "data").get("type") == "fake" and not name:
        return
    if name and name != "auto":
        if name not in NAMES:
            yield Problem("renderer.name", f"is {name!r}, which there is not.", f"Write one of {', '.join(NAMES)}.")
    elif model and model.partition("@")[0] not in RENDERERS:
        reason = "is missing: prime-rl looks it up by the Hub id, and finds none for this model."
        yield Problem("renderer.name", reason, f'Add `name = "qwen3"` to [renderer], or another of {", ".join(NAMES)}.')


def _data(config: Mapping[str, Any]) -> Iterator[Problem]:
    data = table(config, "data")
    if data.get("type") != "fake":
        if "name" not in data:
            yield Problem("data.name", "is missing.", 'Add `name = "datasets/NAME"` to [data].')
        yield from dataset_problems("data.name", text(config, "data", "name"))
    validation = text(config, "val.data", "name")
    if validation and not validation.startswith("/volume/"):
        reason = f"is no path on the volume: {validation!r}."
        yield Problem("val.data.name", reason, "Write /volume/datasets/NAME/VERSION.")
    size, micro = data.get("batch_size", 128), data.get("micro_batch_size", 1)
    if isinstance(size, int) and isinstance(micro, int) and micro > 0 and size % micro:
        yield Problem("data.batch_size", f"is {size}, no multiple of micro_batch_size {micro}.", "Make it one.")


def _saving(config: Mapping[str, Any]) -> Iterator[Problem]:
    if table(config, "ckpt").get("skip_progress") is True:
        reason = "is true: a resumed run would count its steps from 1 again, over its own checkpoints."
        yield Problem("ckpt.skip_progress", reason, "Remove it.")


def _schedule(config: Mapping[str, Any]) -> Iterator[Problem]:
    schedule, steps = table(config, "scheduler"), config.get("max_steps")
    kind = schedule.get("type", "constant")
    warmup, decay = schedule.get("warmup_steps", 10), schedule.get("decay_steps", 10)
    if kind == "constant" or not isinstance(warmup, int) or not isinstance(decay, int):
        return
    if steps is None and (kind == "cosine" or decay > 0):
        yield Problem(
            "max_steps", f"is missing, and a {kind} schedule needs an end.", "Add `max_steps = 1000` at the top."
        )
    elif isinstance(steps, int) and kind == "cosine" and warmup >= steps:
        reason = f"is {warmup}, and max_steps is {steps}."
        yield Problem("scheduler.warmup_steps", reason, f"Make it less than {steps}.")
    elif isinstance(steps, int) and kind == "linear" and warmup + decay > steps:
        reason = f"and warmup_steps are {warmup + decay} together, and max_steps is {steps}."
        yield Problem("scheduler.decay_steps", reason, f"Make them {steps} at most.")
