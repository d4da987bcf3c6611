"""Makes a directory of Hugging Face weights out of a completed checkpoint, where its format has them as they are."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.pod import records, weights
from tasks.pod.area import clear, require_space, staging_area
from tasks.pod.checkpoints.fingerprint import fingerprint
from tasks.pod.errors import BadInputError, ChangedError, NotThereError
from tasks.pod.files import prove
from tasks.pod.layout import Layout, part
from tasks.pod.publish import freeze
from tasks.pod.staging import weights_identity

TOOLS: Mapping[str, str] = {
    "prime-rl": "prime-rl's tools/convert_dcp_to_bf16.py, with the step's directory in its run's",
    "prime-rl-sft": "prime-rl's tools/convert_dcp_to_bf16.py, with the step's directory in its run's",
    "prime-rl-rl": "prime-rl's tools/convert_dcp_to_bf16.py, with the step's directory in its run's",
    "torchtitan": "torchtitan's scripts/checkpoint_conversion/convert_to_hf.py",
    "torch-dcp": "`python -m torch.distributed.checkpoint.format_utils dcp_to_torch`, then your model's conversion",
    "deepspeed": "the zero_to_fp32.py that DeepSpeed put beside it",
    "megatron": "Megatron-Bridge's export to Hugging Face",
    "nemo": "NeMo's `llm.export_ckpt` with target `hf`",
    "lightning": "your model's `load_from_checkpoint` and `save_pretrained`",
    "accelerate": "accelerate's `unwrap_model(...).save_pretrained`",
    "orbax": "MaxText's or your own conversion from orbax",
    "torchtune": "torchtune's own last checkpoint, which is in Hugging Face format",
    "llama-factory": "`llamafactory-cli export`",
    "torch": "your model's `load_state_dict` and `save_pretrained`",
    "peft": "`merge_and_unload` of PEFT, `axolotl merge-lora`, or `llamafactory-cli export`",
    "fsdp": "`accelerate merge-weights STEP/pytorch_model_fsdp_0 DIRECTORY`",
}
"""Format → what turns its checkpoints into Hugging Face weights, where that takes more than files."""

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_MODEL = ("config.json", "generation_config.json")
_TOKENIZER = (
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json"),
    *("preprocessor_config.json", "processor_config.json"),
)


def tool_for(format: str) -> str | None:  # noqa: A002
    """What turns a checkpoint of this format into weights; None where its files are weights already."""
    kinds = format.split("+")
    for kind in ("peft", "deepspeed", "fsdp"):
        if kind in kinds:
            return TOOLS[kind]
    return TOOLS.get(kinds[0])


def export_weights(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Copy the weights of a checkpoint into models/<name>, verified; what it lacks of config and tokenizer comes from
    the weights that its run began from.

    Asked again with the same checkpoint, it is a no-op.

    Args:
        arguments: {"source": the step's directory, "fingerprint": as it was when it was chosen, "format", "base":
            directory of the run's base weights, "name": of the directory in models/}.

    Returns:
        {"path", "files", "bytes", "why" (what they are), "created"}.

    Raises:
        BadInputError: its format has no such weights (names the tool that makes some), or the name is taken.
        ChangedError: the checkpoint is not what was chosen.
        NotThereError: it, or its config, is not there.
    """
    name, source = part("model name", arguments["name"]), layout.resolve(arguments["source"])
    if tool := tool_for(arguments["format"]):
        said = f"A checkpoint of format {arguments['format']} has no weights in Hugging Face format."
        raise BadInputError(said, f"What makes some of it: {tool}.")
    final, record = layout.own_weights(name), layout.own_weights_record(name)
    wanted = {"source": arguments["source"], "fingerprint": arguments["fingerprint"]}
    there = records.read_if_there(record)
    if final.exists():
        if there is None or {key: there.get(key) for key in wanted} != wanted:
            raise BadInputError(f"There is a models/{name} already.", "Say another name with --to.")
        return _answer(layout, final, created=False)
    _unchanged(source, arguments)
    files = _files(source, layout.resolve(arguments["base"]))
    with staging_area(layout, weights_identity(name)) as area:
        clear(area)
        tree = area / "tree"
        tree.mkdir()
        require_space(area, sum(path.stat().st_size for path in files.values()))
        for target, path in files.items():
            shutil.copyfile(path, tree / target)
            if prove(path).sha256 != prove(tree / target).sha256:
                raise ChangedError(f"{target} did not arrive as it was read.", "Ask for it again.")
        _unchanged(source, arguments)
        found = weights.inspect(layout, {"path": layout.relative(tree)})
        if not found["ok"]:
            raise NotThereError(f"What was copied is no complete model: {found['why']}", found["remedy"])
        records.replace(record, wanted)
        freeze(tree, final)
        clear(area)
    return _answer(layout, final, created=True)


def _files(source: Path, base: Path) -> dict[str, Path]:
    """What goes into the directory, by name."""
    found = {name: source / name for name in _WEIGHTS if (source / name).is_file()}
    if index := found.get("model.safetensors.index.json"):
        shards = set(json.loads(index.read_text(encoding="utf-8")).get("weight_map", {}).values())
        found |= {shard: source / shard for shard in shards}
    if not any(name.endswith(".safetensors") for name in found):
        raise NotThereError("The checkpoint has no model.safetensors.", "Convert its weights to safetensors.")
    for group in (_MODEL, _TOKENIZER):
        origin = source if any((source / name).is_file() for name in group) else base
        found |= {name: origin / name for name in group if (origin / name).is_file()}
    if "config.json" not in found:
        raise NotThereError("Neither the checkpoint nor its base weights have a config.json.", "Put one there.")
    return found


def _unchanged(source: Path, arguments: dict[str, Any]) -> None:
    if not source.is_dir():
        raise NotThereError(f"There is no {arguments['source']} on this volume.", "Check the run and the step.")
    if fingerprint(source) != arguments["fingerprint"]:
        raise ChangedError(f"{arguments['source']} is no longer what was chosen.", "Ask for it again.")


def _answer(layout: Layout, final: Path, *, created: bool) -> dict[str, Any]:
    found = weights.inspect(layout, {"path": layout.relative(final)})
    return {
        "path": layout.relative(final),
        "files": len(list(final.iterdir())),
        "bytes": sum(path.stat().st_size for path in final.iterdir()),
        "why": found["why"],
        "created": created,
    }
