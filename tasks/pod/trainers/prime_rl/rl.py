"""prime-rl's reinforcement learning: one job in which trainer, orchestrator and inference each load the model. Pure."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from tasks.pod.trainers.adapter import Problem
from tasks.pod.trainers.prime_rl.keys import RL_TABLES
from tasks.pod.trainers.prime_rl.renderers import NAMES, RENDERERS
from tasks.pod.trainers.prime_rl.sft import alone, table, text
from tasks.pod.trainers.references import model_problems
from tasks.pod.trainers.schema import OURS, nearest

_ROLES = ("trainer.model", "orchestrator.model", "orchestrator.student.model", "inference.model")
_VLLM = ("inference.vllm", "model")


def is_rl(config: Mapping[str, Any]) -> bool:
    """`[trainer]` or `[orchestrator]` make a config one for reinforcement learning."""
    return "trainer" in config or "orchestrator" in config


def model_of(config: Mapping[str, Any]) -> str:
    """The model that all three roles load."""
    names = [name for _, _, name in _models(config)]
    return names[0] if names else ""


def model_keys(config: Mapping[str, Any]) -> list[str]:
    """The dotted keys that name it; where none does, the one for all three."""
    return [f"{where}.{key}" for where, key, _ in _models(config)] or ["model.name"]


def problems(config: Mapping[str, Any], extra: tuple[str, ...], reads_volume: bool) -> Iterator[Problem]:
    """
    Args:
        extra: keys at the top that the installed version knows and we do not.
        reads_volume: a team has said that the installed version loads weights from a path in all three roles.
    """
    known = {*RL_TABLES, *OURS, *extra}
    for key in config:
        if key not in known:
            near = nearest(key, known)
            hint = f"Did you mean {near}?" if near else "Remove it, or name it in the trainer's option extra_keys."
            yield Problem(key, "is no key that prime-rl knows for reinforcement learning.", hint)
    for role in ("trainer", "orchestrator"):
        if not isinstance(config.get(role), Mapping):
            yield Problem(role, "is missing: reinforcement learning has both.", f"Add [{role}]; for SFT have neither.")
    steps = config.get("max_steps")
    if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 1):
        yield Problem("max_steps", f"must be a whole number of at least 1, is {steps!r}.", "Write for example 100.")
    yield from _model(config, reads_volume)
    yield from alone(config)
    if table(config, "deployment").get("type") == "multi_node":
        reason = "is multi_node: trainer, orchestrator and inference would be started by SLURM, each on its nodes."
        yield Problem("deployment.type", reason, "Remove it: here all three run in one job, on one node.")


def render(config: Mapping[str, Any], weights: str, reads_volume: bool) -> dict[str, Any]:
    """The config with the model in all its places: as the path of the weights, or by its id, which the Hub cache on the
    volume answers without a network."""
    final = copy.deepcopy(dict(config))
    name = weights if reads_volume else model_of(config).partition("@")[0]
    for where, key, _ in _models(config):
        place: Any = final
        for part in where.split("."):
            place = place[part]
        place[key] = name
    known = RENDERERS.get(model_of(config).partition("@")[0])
    if reads_volume and known and text(config, "orchestrator.renderer", "name") in ("", "auto"):
        final["orchestrator"].setdefault("renderer", {})["name"] = known
    return final


def _models(config: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Table, key and value of each place that names the model."""
    places = [("model", "name"), *((role, "name") for role in _ROLES), _VLLM]
    return [(where, key, name) for where, key in places if (name := text(config, where, key))]


def _model(config: Mapping[str, Any], reads_volume: bool) -> Iterator[Problem]:
    named = _models(config)
    if not named:
        yield Problem("model.name", "is missing.", 'Add `name = "org/name"` to [model].')
        return
    where, key, model = named[0]
    yield from model_problems(f"{where}.{key}", model)
    for other, its_key, name in named[1:]:
        if name != model:
            reason = f"is {name!r}, and {where}.{key} is {model!r}: one model is staged for all roles."
            yield Problem(f"{other}.{its_key}", reason, "Remove it.")
    if reads_volume:
        if model.partition("@")[0] not in RENDERERS and text(config, "orchestrator.renderer", "name") in ("", "auto"):
            reason = "is missing: prime-rl looks it up by the Hub id, and finds none for a path."
            remedy = f'Add `name = "qwen3"` to [orchestrator.renderer], or another of {", ".join(NAMES)}.'
            yield Problem("orchestrator.renderer.name", reason, remedy)
        return
    why = (
        "prime-rl loads the model in three roles (trainer, orchestrator, inference), and whether the installed version "
        "can do that from a path in each is not known here"
    )
    remedy = "Name a Hub id, or set the trainer's option rl_reads_volume = true where it can."
    if model.startswith("/volume"):
        yield Problem(f"{where}.{key}", f"is a path on the volume; {why}.", remedy)
    elif "@" in model:
        yield Problem(f"{where}.{key}", f"has a revision, which only a path can keep to; {why}.", remedy)
