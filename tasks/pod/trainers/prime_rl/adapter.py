"""The adapter of prime-rl: TOML, passed on verbatim but for what the platform has to set.

Facts were read from prime-rl's source of August 2026 (0.8.0): packages/prime-rl-configs, src/prime_rl/trainer/ckpt.py.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from tasks.pod.trainers.adapter import ModelSize, Needs, Places, Problem
from tasks.pod.trainers.base import Base, without
from tasks.pod.trainers.lora import Lora
from tasks.pod.trainers.prime_rl import rl, sft
from tasks.pod.trainers.prime_rl.keys import MOVED, SFT
from tasks.pod.trainers.prime_rl.renderers import RENDERERS
from tasks.pod.trainers.references import dataset_needed
from tasks.pod.trainers.schema import OURS, Key, check
from tasks.pod.trainers.toml_config import parse, set_keys

_ADAPTED = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_NEW_SCHEDULE = "Set [ckpt] skip_scheduler = true: a new schedule begins over the steps that are left."


class PrimeRL(Base):
    """Pure: see `tasks.pod.trainers.adapter`. `[trainer]` or `[orchestrator]` make a run reinforcement learning."""

    kind: str = "prime-rl"
    config_name: str = "config.toml"
    checkpoint_format: str | None = "prime-rl"
    checkpoints: str = "checkpoints"
    metrics: str = "metrics.jsonl"
    options: Mapping[str, Key] = {
        "rl_reads_volume": Key("boolean", "true"),
        "extra_keys": Key("array", '["my_key"]', item=Key("text")),
        "schema_python": Key("text", '"/opt/prime-rl/bin/python"'),
    }

    def __init__(
        self, rl_reads_volume: bool = False, extra_keys: Sequence[str] = (), schema_python: str | None = None
    ) -> None:
        """
        Args:
            rl_reads_volume: the installed version loads weights from a path in all three roles.
            extra_keys: dotted keys that the installed version knows and we do not.
            schema_python: a Python on the machine that plans, with prime-rl or prime-rl-configs installed.
        """
        self.rl_reads_volume, self.extra_keys = rl_reads_volume, tuple(extra_keys)
        self.schema_python = schema_python

    def _with(self, options: Mapping[str, Any]) -> "PrimeRL":
        return PrimeRL(**options)

    def parse(self, text: str) -> dict[str, Any]:
        return parse(text)

    def problems(self, config: Mapping[str, Any]) -> list[Problem]:
        moved = [problem for problem in _moved(config) if problem.key not in self.extra_keys]
        if rl.is_rl(config):
            return _each_once([*moved, *rl.problems(config, self.extra_keys, self.rl_reads_volume)])
        known = {**SFT, **{key: Key("any") for key in (*MOVED, *self.extra_keys)}}
        return _each_once([*moved, *check(config, known), *sft.meaning(config)])

    def needs(self, config: Mapping[str, Any]) -> Needs:
        ckpt, schedule = sft.table(config, "ckpt"), sft.table(config, "scheduler")
        is_rl, resume = rl.is_rl(config), sft.text(config, "resume", "dir")
        dataset = sft.text(config, "data", "name")
        return Needs(
            model=(rl.model_of(config) if is_rl else sft.text(config, "model", "name")).rstrip("/"),
            dataset=None if is_rl or sft.text(config, "data", "type") == "fake" else dataset_needed(dataset),
            max_steps=config.get("max_steps"),
            resume=resume.rstrip("/") or None,
            checkpoint_every=ckpt.get("interval") if "ckpt" in config else 0,
            keep_last=ckpt.get("keep_last"),
            schedule=None if is_rl or ckpt.get("skip_scheduler") else str(schedule.get("type", "constant")),
            schedule_remedy=_NEW_SCHEDULE,
            columns=() if is_rl else (("messages",), ("prompt", "completion")),
            gpus=_gpus(config, is_rl),
            one_node=is_rl,
        )

    def without_resume(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return without(config, "resume")

    def with_model(self, config: Mapping[str, Any], model: str) -> dict[str, Any]:
        """The tokenizer goes with it where the config names it as the model."""
        if rl.is_rl(config):
            return set_keys(config, dict.fromkeys(rl.model_keys(config), model))
        named = sft.text(config, "model", "name")
        follows = named and sft.text(config, "tokenizer", "name") == named
        return set_keys(config, {"model.name": model} | ({"tokenizer.name": model} if follows else {}))

    def render(self, config: Mapping[str, Any], places: Places) -> str:
        """`output_dir` and `[run]` so that all lands in the run's directory, which is named as the run is."""
        final = copy.deepcopy(without(config, *OURS, "resume"))
        if rl.is_rl(config):
            final = rl.render(final, places.weights, self.rl_reads_volume)
            converting = final["trainer"].setdefault("model", {})
        else:
            converting = self._render_sft(final, config, places)
        converting.setdefault("conversion_dir", f"{places.scratch}/conversion")  # else beside the weights: read-only
        above, _, run = places.output.rstrip("/").rpartition("/")
        final["output_dir"] = above
        final["run"] = {**final.get("run", {}), "name": run, "dir": run}
        if places.resume is not None:
            final["resume"] = {"dir": places.resume}
        return tomli_w.dumps(final)

    def _render_sft(self, final: dict[str, Any], config: Mapping[str, Any], places: Places) -> dict[str, Any]:
        model = sft.text(config, "model", "name")
        if sft.text(config, "tokenizer", "name") == model:
            final["tokenizer"]["name"] = places.weights
        if sft.text(config, "renderer", "name") in ("", "auto") and (known := RENDERERS.get(model.partition("@")[0])):
            final.setdefault("renderer", {})["name"] = known
        if places.dataset is not None:
            final["data"]["name"] = places.dataset
        final["model"]["name"] = places.weights
        found: dict[str, Any] = final["model"]
        return found

    def command(self, config: Mapping[str, Any], config_path: str, gpus: int, nodes: int) -> Sequence[str]:
        """Its own entry points on one node; on several torchrun directly, because they start those with SLURM only."""
        if rl.is_rl(config):
            return ("rl", "@", config_path)
        if nodes == 1:
            return ("sft", "@", config_path)
        where = (
            f"--nnodes={nodes}",
            f"--nproc-per-node={max(1, gpus)}",
        )  # the rest comes from PET_… in the environment
        return ("torchrun", *where, "-m", "prime_rl.trainer.sft.train", "@", config_path)

    def checkpoint_bytes(self, config: Mapping[str, Any], model: ModelSize) -> int | None:
        """Weights as float32, frozen ones too, and the optimizer's of what is trained; `skip_optimizer` only skips
        loading it."""
        above = "trainer." if rl.is_rl(config) else ""
        name = sft.text(config, f"{above}optim", "type") or "adamw"
        kept = {"adamw": 8, "muon": 8, "sgd": 4}.get(name, 0)
        if "lora" not in sft.table(config, f"{above}model"):
            return model.parameters * (4 + kept)
        lora = sft.table(config, f"{above}model.lora")
        adapted = tuple(lora.get("target_modules", _ADAPTED))
        added = None if lora.get("modules_to_save") else Lora(lora.get("rank", 16), adapted).parameters(model)
        return None if added is None else 4 * model.parameters + (4 + kept) * added

    def own_schema(self) -> tuple[str, str] | None:
        return (self.schema_python, str(Path(__file__).with_name("own_schema.py"))) if self.schema_python else None

    def reshards(self, config: Mapping[str, Any]) -> bool:
        """Weights and optimizer are; each rank's place in the data is its own."""
        return rl.is_rl(config) or bool(sft.table(config, "ckpt").get("skip_dataloader"))

    def step_directory(self, step: int) -> str:
        return f"{self.checkpoints}/step_{step}"


def _moved(config: Mapping[str, Any]) -> Iterator[Problem]:
    for key, remedy in MOVED.items():
        where, _, leaf = key.rpartition(".")
        if leaf in (sft.table(config, where) if where else config):
            yield Problem(key, "is a key of earlier versions.", remedy)


def _gpus(config: Mapping[str, Any], is_rl: bool) -> int:
    deployment = sft.table(config, "deployment")
    others = deployment.get("num_infer_gpus", 1) if is_rl or "inference" in config else 0
    return int(deployment.get("num_train_gpus", 1)) + int(others)


def _each_once(found: Sequence[Problem] | Iterator[Problem]) -> list[Problem]:
    """The first problem of each key."""
    kept: dict[str, Problem] = {}
    for problem in found:
        kept.setdefault(problem.key, problem)
    return list(kept.values())
