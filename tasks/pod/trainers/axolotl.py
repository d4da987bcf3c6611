"""The adapter of axolotl: YAML, whose datasets are a list. Key names were read from its schemas of July 2026."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.pod.trainers.adapter import Places, Problem
from tasks.pod.trainers.axolotl_keys import CALLED_ELSEWHERE, NAMES
from tasks.pod.trainers.hf_family import HuggingFace, launch
from tasks.pod.trainers.lora import Lora, targets_of
from tasks.pod.trainers.references import dataset_needed, is_settled, names_dataset
from tasks.pod.trainers.schema import Key, misspelt


class Axolotl(HuggingFace):
    """Pure: see `tasks.pod.trainers.adapter`."""

    kind: str = "axolotl"
    model_key: str = "base_model"
    revision_key: str = "revision_of_model"
    required: Mapping[str, str] = {"base_model": "org/name", "micro_batch_size": "2"}
    typed: Mapping[str, Key] = {
        "micro_batch_size": Key("integer", "2", at_least=1),
        "num_epochs": Key("number", "3", above=0),
        "sequence_len": Key("integer", "4096", at_least=1),
        "val_set_size": Key("number", "0.05", at_least=0),
        "saves_per_epoch": Key("integer", "1", at_least=1),
        "lora_r": Key("integer", "16", at_least=1),
        "adapter": Key("text", "lora", one_of=("lora", "qlora", "llama-adapter")),
    }
    renamed: Mapping[str, str] = {
        "max_packed_sequence_len": "sample_packing: true, with sequence_len",
        "noisy_embedding_alpha": "neftune_noise_alpha",
        "dpo_beta": "rl_beta",
        "base_model_ignore_patterns": "nothing",
    }
    options: Mapping[str, Key] = {"extra_keys": Key("array", '["my_key"]', item=Key("text"))}

    def __init__(self, extra_keys: Sequence[str] = ()) -> None:
        """
        Args:
            extra_keys: keys that the installed version knows and we do not.
        """
        self.extra_keys = tuple(extra_keys)

    def _with(self, options: Mapping[str, Any]) -> "Axolotl":
        return Axolotl(**options)

    def unknown(self, given: Mapping[str, Any]) -> list[Problem]:
        return misspelt(given, NAMES, self.extra_keys, CALLED_ELSEWHERE)

    def meaning(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        yield from self._datasets(given)
        if given.get("adapter") == "qlora" and given.get("load_in_8bit") is True:
            yield Problem("load_in_8bit", "is true, and qlora works with 4 bits.", "Set load_in_4bit: true instead.")
        if given.get("adapter") == "qlora" and given.get("load_in_4bit") is not True:
            yield Problem("load_in_4bit", "is not true, and qlora works with 4 bits.", "Set load_in_4bit: true.")
        if given.get("adapter") == "lora" and not (
            {"lora_target_modules", "lora_target_linear", "lora_target_parameters"} & set(given)
        ):
            yield Problem("lora_target_linear", "is missing, and adapter is lora.", "Add `lora_target_linear: true`.")
        if "saves_per_epoch" in given and "save_steps" in given:
            yield Problem("saves_per_epoch", "is given, and save_steps too.", "Choose one of the two.")
        if "hub_model_id" in given:
            reason = "is given, and a run is offline: the push would fail."
            yield Problem("hub_model_id", reason, "Remove it; upload afterwards, with `slipway export`.")

    def _datasets(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        key = "datasets" if given.get("datasets") else "pretraining_dataset"
        entries = given.get(key)
        if isinstance(entries, Mapping):
            entries = [entries]
        if not isinstance(entries, list) or not entries:
            yield Problem(
                "datasets", "is missing, or is no list.", "Add `datasets: [{path: datasets/NAME, type: alpaca}]`."
            )
            return
        staged = 0
        for place, entry in enumerate(entries):
            path = entry.get("path") if isinstance(entry, Mapping) else None
            where = f"{key}.{place}.path"
            if not isinstance(path, str) or not path:
                yield Problem(where, "is missing.", "Write path: datasets/NAME.")
            elif names_dataset(path):
                staged += not is_settled(path)
            elif not path.startswith("/volume/"):
                reason = f"is no dataset on the volume, and a run is offline: {path!r}."
                yield Problem(where, reason, "Stage it, and write datasets/NAME or datasets/NAME/VERSION.")
            if isinstance(entry, Mapping) and key == "datasets" and "type" not in entry and not given.get("rl"):
                yield Problem(
                    f"{key}.{place}.type", "is missing.", "Write how its rows are read, such as chat_template."
                )
        if staged > 1:
            reason = f"names {staged} datasets without saying which version, and that is found out for one."
            yield Problem(key, reason, "Write the others as /volume/datasets/NAME/VERSION.")

    def trains_adapters(self, config: Mapping[str, Any]) -> bool:
        return bool(config.get("adapter") or config.get("unfrozen_parameters"))

    def lora(self, config: Mapping[str, Any]) -> Lora | None:
        more = any(config.get(f"lora_{what}") for what in ("modules_to_save", "target_parameters", "rank_pattern"))
        if more or config.get("adapter") not in ("lora", "qlora") or not config.get("lora_r"):
            return None
        named = None if config.get("lora_target_linear") else config.get("lora_target_modules")
        return Lora(config["lora_r"], targets_of(named))

    def optimizer(self, config: Mapping[str, Any]) -> str:
        return str(config.get("optimizer") or "adamw")

    def dataset(self, config: Mapping[str, Any]) -> str | None:
        names = [entry["path"] for entry in _entries(config) if names_dataset(entry.get("path"))]
        names.sort(key=is_settled)
        return dataset_needed(names[0]) if names else None

    def put_dataset(self, final: dict[str, Any], path: str) -> None:
        key = "datasets" if final.get("datasets") else "pretraining_dataset"
        entries = [dict(entry) for entry in _entries(final)]
        for entry in entries:
            if names_dataset(entry.get("path")) and not is_settled(entry["path"]):
                entry["path"] = path
        final[key] = entries

    def settle(self, final: dict[str, Any], places: Places) -> None:
        """What it prepares of the data goes to scratch: else beside the code, which may be read-only."""
        prepared = final.get("dataset_prepared_path")
        if not (isinstance(prepared, str) and prepared.startswith("/volume/")):
            final["dataset_prepared_path"] = f"{places.scratch}/prepared"
        final.pop("auto_resume_from_checkpoints", None)

    def command(self, config: Mapping[str, Any], config_path: str, gpus: int, nodes: int) -> Sequence[str]:
        return launch(["-m", "axolotl.cli.train", config_path], config_path, gpus, nodes)


def _entries(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = config.get("datasets") or config.get("pretraining_dataset") or []
    return [found] if isinstance(found, Mapping) else list(found)
