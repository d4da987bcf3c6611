"""Read the model's sizes and weights from a Hugging Face-format directory, one file or sharded."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from tasks.pod.errors import NotThereError, PodError
from tasks.pod.trainers.tiny.network import Array, Parameters, Sizes

MODEL_TYPE = "slipway-tiny"
_RESTAGE = "Stage the model again."


def read_sizes(directory: Path) -> Sizes:
    """Raises: NotThereError if there is no config.json; PodError if it is another model's."""
    if not (directory / "config.json").is_file():
        if (directory / "complete.json").is_file():
            raise NotThereError(
                f"[model].name {directory} is a training checkpoint, not a model.",
                "Put it under [resume].dir, and the model that it was trained from under [model].name.",
            )
        raise NotThereError(f"There are no weights at {directory}: config.json is missing.", _RESTAGE)
    config = read_json(directory / "config.json")
    if config.get("model_type") != MODEL_TYPE:
        raise PodError(
            f"The tiny trainer can not train {directory}: its model_type is {config.get('model_type')!r}.",
            f"Use a model of type {MODEL_TYPE!r}, or another trainer.",
        )
    sizes = {name: config.get(name) for name in Sizes().as_json()}
    if not all(isinstance(size, int) and 0 < size < 2**20 for size in sizes.values()):
        raise PodError(f"{directory / 'config.json'} has no usable sizes: {sizes}.", _RESTAGE)
    return Sizes(**{name: size for name, size in sizes.items() if size is not None})


def read_weights(directory: Path, sizes: Sizes) -> Parameters:
    """Raises: NotThereError if a file is missing; PodError if one is damaged or does not fit."""
    tensors: dict[str, Array] = {}
    for file in _files(directory):
        if not file.is_file():
            raise NotThereError(f"The weights at {directory} are incomplete: {file.name} is missing.", _RESTAGE)
        tensors |= read_tensors(file)
    return fill(Parameters(sizes), tensors, f"The weights at {directory}", _RESTAGE)


def fill(parameters: Parameters, tensors: dict[str, Array], what: str, remedy: str) -> Parameters:
    """Copy tensors by name into `parameters`.

    Raises:
        PodError: one is missing or has another shape; `what` and `remedy` are its words.
    """
    for name, values in parameters.items():
        if name not in tensors:
            raise PodError(f"{what} are incomplete: tensor {name} is missing.", remedy)
        if tensors[name].shape != values.shape:
            raise PodError(
                f"{what} do not fit: {name} has shape {tensors[name].shape}, config.json says {values.shape}.",
                remedy,
            )
        values[...] = tensors[name].astype(np.float32)
    return parameters


def read_tensors(file: Path) -> dict[str, Array]:
    """Raises: PodError if the file is damaged."""
    try:
        return dict(load_file(file))
    except SafetensorError as error:
        raise PodError(f"{file} is damaged: {error}.", "Stage the model again, or take another checkpoint.") from error


def read_json(file: Path) -> dict[str, Any]:
    """Raises: PodError if it holds no JSON object."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise PodError(f"{file} is damaged: {error}.", "Stage the model again, or take another checkpoint.") from error
    if not isinstance(found, dict):
        raise PodError(f"{file} is damaged: no JSON object.", "Stage the model again, or take another checkpoint.")
    return found


def _files(directory: Path) -> list[Path]:
    index = directory / "model.safetensors.index.json"
    if not index.is_file():
        return [directory / "model.safetensors"]
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise PodError(f"{index} is damaged: it has no weight_map.", _RESTAGE)
    return [directory / name for name in sorted(set(names.values()))]
