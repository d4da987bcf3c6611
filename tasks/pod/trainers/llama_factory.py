"""The adapter of LLaMA-Factory: YAML; its datasets are names in the `dataset_info.json` of a directory.

Key names were read from its arguments of August 2026. It refuses keys that it does not know.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.pod.trainers import hf_arguments
from tasks.pod.trainers.adapter import Places, Problem
from tasks.pod.trainers.hf_family import HuggingFace
from tasks.pod.trainers.llama_factory_keys import NAMES
from tasks.pod.trainers.lora import Lora, targets_of
from tasks.pod.trainers.references import dataset_needed, dataset_problems
from tasks.pod.trainers.schema import OURS, Key, nearest

_STAGES = ("pt", "sft", "rm", "ppo", "dpo", "kto")


class LlamaFactory(HuggingFace):
    """Pure: see `tasks.pod.trainers.adapter`."""

    kind: str = "llama-factory"
    metrics: str = "trainer_log.jsonl"
    required: Mapping[str, str] = {
        "model_name_or_path": "org/name",
        "stage": "sft",
        "dataset_dir": "datasets/NAME",
        "dataset": "NAME",
    }
    typed: Mapping[str, Key] = {
        "stage": Key("text", "sft", one_of=_STAGES),
        "finetuning_type": Key("text", "full", one_of=("lora", "oft", "freeze", "full")),
        "do_train": Key("boolean", "true"),
        "cutoff_len": Key("integer", "2048", at_least=1),
        "max_samples": Key("integer", "1000", at_least=1),
        "lora_rank": Key("integer", "8", at_least=1),
        "quantization_bit": Key("integer", "4", at_least=2),
        "val_size": Key("number", "0.1", at_least=0),
        "preprocessing_num_workers": Key("integer", "16", at_least=1),
    }
    renamed: Mapping[str, str] = {
        "cutoff_length": "cutoff_len",
        "lora_modules": "lora_target",
        "template_name": "template",
        "checkpoint_dir": "adapter_name_or_path",
        "bf16_full": "pure_bf16",
    }
    options: Mapping[str, Key] = {"extra_keys": Key("array", '["my_key"]', item=Key("text"))}

    def __init__(self, extra_keys: Sequence[str] = ()) -> None:
        """
        Args:
            extra_keys: keys that the installed version knows and we do not.
        """
        self.extra_keys = tuple(extra_keys)

    def _with(self, options: Mapping[str, Any]) -> "LlamaFactory":
        return LlamaFactory(**options)

    def unknown(self, given: Mapping[str, Any]) -> list[Problem]:
        known = {*NAMES, *hf_arguments.NAMES, *self.extra_keys, *OURS}
        found = []
        for key in given:
            if key not in known:
                near = nearest(key, known)
                hint = f"Did you mean {near}?" if near else "Remove it."
                more = " If the installed version knows it, name it in the trainer's option extra_keys."
                found.append(
                    Problem(key, "is no key that LLaMA-Factory knows: it would refuse the config.", hint + more)
                )
        return found

    def meaning(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        folder = given.get("dataset_dir")
        if isinstance(folder, str) and not folder.startswith("/volume/"):
            yield from dataset_problems("dataset_dir", folder)
        elif folder is not None and not isinstance(folder, str):
            yield Problem("dataset_dir", f"must be text, is {folder!r}.", "Write datasets/NAME.")
        if "template" not in given and given.get("stage") != "pt":
            yield Problem("template", "is missing.", "Add `template: llama3`, or the one that the model needs.")
        if given.get("do_train") is not True:
            yield Problem("do_train", "is not true: nothing would be trained.", "Write `do_train: true`.")
        if given.get("quantization_bit") and given.get("finetuning_type", "lora") not in ("lora", "oft"):
            reason = (
                f"is given, and finetuning_type is {given['finetuning_type']}: quantized weights can not be trained."
            )
            yield Problem("quantization_bit", reason, "Remove it, or write `finetuning_type: lora`.")
        if given.get("streaming") is True and not (isinstance(given.get("max_steps"), int) and given["max_steps"] > 0):
            yield Problem("max_steps", "is missing, and streaming is true.", "Add `max_steps: 1000`.")
        if given.get("streaming") is True and isinstance(share := given.get("val_size"), float) and 0 < share < 1:
            yield Problem("val_size", "is a share, and streaming is true.", "Write a number of rows.")

    def trains_adapters(self, config: Mapping[str, Any]) -> bool:
        return bool(config.get("finetuning_type", "lora") != "full")

    def lora(self, config: Mapping[str, Any]) -> Lora | None:
        if config.get("finetuning_type", "lora") != "lora" or config.get("additional_target"):
            return None
        return Lora(config.get("lora_rank") or 8, targets_of(config.get("lora_target")))

    def optimizer(self, config: Mapping[str, Any]) -> str:
        """GaLore, APOLLO and BAdam keep less than Adam: what is told is the most."""
        return str(config.get("optim") or "adamw")

    def dataset(self, config: Mapping[str, Any]) -> str | None:
        folder = str(config["dataset_dir"])
        return folder if folder.startswith("/volume/") else dataset_needed(folder)

    def put_dataset(self, final: dict[str, Any], path: str) -> None:
        final["dataset_dir"] = path

    def settle(self, final: dict[str, Any], places: Places) -> None:
        """It refuses an output directory that has files, where it is not told what to continue from."""
        if places.resume is None:
            final["overwrite_output_dir"] = True

    def programs(self, config: Mapping[str, Any], places: Places) -> Mapping[str, str]:
        return {}

    def command(self, config: Mapping[str, Any], config_path: str, gpus: int, nodes: int) -> Sequence[str]:
        """Its own launcher, which starts torchrun itself where it is told to."""
        train = ("llamafactory-cli", "train", config_path)
        if max(1, gpus) * nodes == 1:
            return train
        return ("env", "FORCE_TORCHRUN=1", f"NNODES={nodes}", f"NPROC_PER_NODE={max(1, gpus)}", *train)
