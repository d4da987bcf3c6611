"""The adapter of scripts that take transformers' TrainingArguments from a YAML or JSON file: TRL's `sft` by default."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tasks.pod.trainers import hf_arguments
from tasks.pod.trainers.adapter import Problem
from tasks.pod.trainers.config_text import Syntax
from tasks.pod.trainers.hf_family import HuggingFace, launch
from tasks.pod.trainers.lora import Lora, targets_of
from tasks.pod.trainers.references import dataset_needed, dataset_problems, names_dataset
from tasks.pod.trainers.schema import Key, misspelt

TRL = frozenset(
    """
    activation_offloading assistant_only_loss attn_implementation bnb_4bit_quant_storage bnb_4bit_quant_type
    chat_template_path completion_only_loss dataset_config dataset_kwargs dataset_name dataset_num_proc
    dataset_streaming dataset_test_split dataset_text_field dataset_train_split datasets dtype eos_token
    eval_packing load_in_4bit load_in_8bit lora_alpha lora_dropout lora_modules_to_save lora_r
    lora_target_modules lora_target_parameters lora_task_type loss_type max_length model_init_kwargs
    model_name_or_path model_revision packing packing_strategy pad_to_multiple_of pad_token padding_free
    shuffle_dataset streaming test_split_size trust_remote_code truncation_mode use_bnb_nested_quant use_dora
    use_peft use_rslora
""".split()  # noqa: SIM905
)


CALLED_ELSEWHERE = {
    "adapter": "use_peft: true",
    "base_model": "model_name_or_path",
    "cutoff_len": "max_length",
    "epochs": "num_train_epochs",
    "finetuning_type": "use_peft: true",
    "lora_rank": "lora_r",
    "lora_target": "lora_target_modules",
    "lora_target_linear": "lora_target_modules: all-linear",
    "lr": "learning_rate",
    "lr_scheduler": "lr_scheduler_type",
    "max_seq_len": "max_length",
    "max_seq_length": "max_length",
    "micro_batch_size": "per_device_train_batch_size",
    "num_epochs": "num_train_epochs",
    "optimizer": "optim",
    "sample_packing": "packing",
    "sequence_len": "max_length",
    "train_batch_size": "per_device_train_batch_size",
}
"""What other trainers, and TRL's earlier versions, call it → TRL's name."""


class Transformers(HuggingFace):
    """Pure: see `tasks.pod.trainers.adapter`."""

    kind: str = "transformers"
    options: Mapping[str, Key] = {
        "program": Key("text", '"trl.scripts.sft"'),
        "arguments": Key("array", '["--config", "{config}"]', item=Key("text")),
        "syntax": Key("text", '"yaml"', one_of=("yaml", "json")),
        "interpreter": Key("text", '"python"'),
        "model_key": Key("text", '"model_name_or_path"'),
        "dataset_key": Key("text", '"dataset_name"'),
        "extra_keys": Key("array", '["my_key"]', item=Key("text")),
    }

    def __init__(
        self,
        program: str = "trl.scripts.sft",
        arguments: Sequence[str] | None = None,
        syntax: Syntax = "yaml",
        interpreter: str = "python",
        model_key: str = "model_name_or_path",
        dataset_key: str = "dataset_name",
        extra_keys: Sequence[str] = (),
    ) -> None:
        """
        Args:
            program: a module, or a path that ends in .py, in the image or on the volume.
            arguments: of the program; `{config}` is the config's path. None: `--config {config}` for TRL's modules,
                else the path alone.
            syntax: of the config.
            interpreter: which Python of the image.
            model_key, dataset_key: what the script calls them.
            extra_keys: keys of the script that are like TrainingArguments' and are none.
        """
        self.program, self.interpreter = program, interpreter
        self.trl = program.startswith("trl.")
        self.arguments = tuple(arguments or (["--config", "{config}"] if self.trl else ["{config}"]))
        self.syntax = syntax
        self.model_key, self.dataset_key = model_key, dataset_key
        self.extra_keys = tuple(extra_keys)
        self.required = {model_key: "org/name"} | ({dataset_key: "datasets/NAME"} if self.trl else {})

    def _with(self, options: Mapping[str, Any]) -> "Transformers":
        return Transformers(**options)

    def meaning(self, given: Mapping[str, Any]) -> Iterator[Problem]:
        dataset = given.get(self.dataset_key)
        if isinstance(dataset, str):
            yield from dataset_problems(self.dataset_key, dataset)
        elif dataset is not None:
            yield Problem(self.dataset_key, f"must be text, is {dataset!r}.", "Write datasets/NAME.")
        if self.trl and self.dataset_key not in given:
            yield from _mixture(given.get("datasets"))

    def instead(self, key: str, given: Mapping[str, Any]) -> bool:
        """TRL mixes several datasets, which are listed."""
        return key == self.dataset_key and self.trl and bool(given.get("datasets"))

    def unknown(self, given: Mapping[str, Any]) -> list[Problem]:
        own = {self.model_key, self.dataset_key, *self.extra_keys}
        return misspelt(given, hf_arguments.NAMES | TRL | own, called=CALLED_ELSEWHERE if self.trl else {})

    def trains_adapters(self, config: Mapping[str, Any]) -> bool:
        return bool(config.get("use_peft"))

    def lora(self, config: Mapping[str, Any]) -> Lora | None:
        if config.get("lora_modules_to_save") or config.get("lora_target_parameters"):
            return None
        return Lora(config.get("lora_r") or 16, targets_of(config.get("lora_target_modules")))

    def dataset(self, config: Mapping[str, Any]) -> str | None:
        name = config.get(self.dataset_key)
        return dataset_needed(str(name)) if names_dataset(name) else None

    def put_dataset(self, final: dict[str, Any], path: str) -> None:
        final[self.dataset_key] = path

    def command(self, config: Mapping[str, Any], config_path: str, gpus: int, nodes: int) -> Sequence[str]:
        """The script, started by our launcher: by torchrun where there are several processes."""
        program = [self.program] if self.program.endswith(".py") else ["-m", self.program]
        arguments = [argument.replace("{config}", config_path) for argument in self.arguments]
        return launch([*program, *arguments], config_path, gpus, nodes, self.interpreter)


def _mixture(entries: Any) -> Iterator[Problem]:
    if entries is None:
        return
    if not isinstance(entries, list):
        yield Problem("datasets", f"must be a list, is {entries!r}.", "Write - path: /volume/datasets/NAME/VERSION.")
        return
    for place, entry in enumerate(entries):
        path = entry.get("path") if isinstance(entry, Mapping) else None
        if not (isinstance(path, str) and path.startswith("/volume/")):
            reason = f"is no place on the volume, and a run is offline: {path!r}."
            yield Problem(f"datasets.{place}.path", reason, "Stage it, and write /volume/datasets/NAME/VERSION.")
