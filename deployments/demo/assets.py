"""What the demo stages: a small model repository and a small dataset, the same bytes from the same seed.

Nothing here needs a network. The model is the tiny trainer's, with untrained weights, in the layout of a Hub
repository.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors.numpy import save

from deployments.demo.harbour import documents
from tasks.pod.trainers.tiny.network import VOCABULARY, Sizes, initial
from tasks.pod.trainers.tiny.weights import MODEL_TYPE

REPO = "slipway/tiny-lm"
DATASET = "harbour"

_CARD = """\
---
license: apache-2.0
pipeline_tag: text-generation
tags: [slipway, byte-level]
---
# tiny-lm

A byte-level neural n-gram language model with untrained weights: a stand-in for a real base
model in Slipway's demo. It is made on the machine that runs the demo, from a seed.
"""


def write_model(folder: Path, sizes: Sizes | None = None, seed: int = 7) -> None:
    """Write the files of the demo's model repository: config, two shards with their index, tokenizer, card.

    Args:
        folder: made if it is not there; files in it are written over.
        sizes: of the model; None for the trainer's own, about 2.2 MB.
        seed: of the weights.
    """
    sizes = sizes or Sizes()
    parameters = initial(sizes, seed)
    tensors = dict(parameters.items())
    first = {name: tensors[name] for name in ("embedding.weight", "hidden.weight")}
    second = {name: tensors[name] for name in tensors if name not in first}
    shards = {f"model-0000{number}-of-00002.safetensors": part for number, part in ((1, first), (2, second))}
    files = {name: save(part, {"format": "np"}) for name, part in shards.items()}
    index = {
        "metadata": {"total_size": parameters.flat.nbytes, "total_parameters": sizes.parameters},
        "weight_map": {tensor: name for name, part in shards.items() for tensor in part},
    }
    config = {
        "architectures": ["SlipwayTinyForCausalLM"],
        "model_type": MODEL_TYPE,
        "dtype": "float32",
        "vocab_size": VOCABULARY,
        **sizes.as_json(),
    }
    files |= {
        "README.md": _CARD.encode(),
        "config.json": _json(config),
        "generation_config.json": _json({"do_sample": True, "max_new_tokens": 200}),
        "model.safetensors.index.json": _json(index),
        "tokenizer.json": _json(_tokenizer()),
        "tokenizer_config.json": _json(
            {"model_max_length": sizes.context_size, "tokenizer_class": "PreTrainedTokenizerFast"}
        ),
    }
    _write(folder, files)


def write_dataset(folder: Path, seed: int = 11) -> None:
    """Write `train.jsonl` (400 kB) and `validation.jsonl` (40 kB): the log of a harbour, a day a line.

    Args:
        folder: made if it is not there; files in it are written over.
        seed: of the text.
    """
    lines = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in documents(seed, 1100)]
    _write(
        folder,
        {"train.jsonl": "".join(lines[100:]).encode(), "validation.jsonl": "".join(lines[:100]).encode()},
    )


def commit_of(folder: Path) -> str:
    """Forty hexadecimal digits that name the contents of a folder: the demo Hub's commit.

    Args:
        folder: of files, without folders in it.
    """
    sha = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        sha.update(f"{file.name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return sha.hexdigest()[:40]


def _write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"


def _tokenizer() -> dict[str, Any]:
    """A byte is a token and its id: byte-level BPE without a merge, in the format of `tokenizers`."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": _byte_names(),
            "merges": [],
        },
    }


def _byte_names() -> dict[str, int]:
    """GPT-2's printable name of each byte: itself where it can be shown, else the next one from U+0100."""
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = [byte for byte in range(VOCABULARY) if byte not in shown]
    return {chr(byte if byte in shown else 256 + hidden.index(byte)): byte for byte in range(VOCABULARY)}
