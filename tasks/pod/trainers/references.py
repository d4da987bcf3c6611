"""What a config may name: a model, a dataset, a checkpoint to continue from; and what is wrong with a name. Pure."""

import re
from collections.abc import Iterator
from typing import Any

from tasks.pod.trainers.adapter import Problem

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_HUB_ID = re.compile(rf"{_NAME}/{_NAME}(@[A-Za-z0-9][A-Za-z0-9._/-]*)?")
_DATASET = re.compile(rf"(?P<volume>/volume/)?(?P<path>datasets/{_NAME}(/(?P<version>{_NAME}))?)")


def model_problems(key: str, model: str) -> Iterator[Problem]:
    if model.startswith("/volume/"):
        yield from _outside(key, model)
    elif model and not _HUB_ID.fullmatch(model):
        yield Problem(
            key,
            f"is neither a path on the volume nor a Hub id: {model!r}.",
            "Write /volume/models/NAME, or org/name or org/name@revision.",
        )


def dataset_problems(key: str, dataset: str) -> Iterator[Problem]:
    if dataset and not _DATASET.fullmatch(dataset.rstrip("/")):
        yield Problem(
            key,
            f"is no dataset on the volume: {dataset!r}.",
            "Stage it, and write datasets/NAME or datasets/NAME/VERSION.",
        )


def dataset_needed(name: str) -> str:
    """`/volume/datasets/<name>/<version>`, or `datasets/<name>` where no version is said."""
    match = _DATASET.fullmatch(name.rstrip("/"))
    assert match is not None, name
    return name.rstrip("/") if match["version"] else match["path"]


def names_dataset(value: Any) -> bool:
    """Whether a value is a dataset of the volume."""
    return isinstance(value, str) and _DATASET.fullmatch(value.rstrip("/")) is not None


def is_settled(path: str) -> bool:
    """Whether a dataset is named with its version and its place: there is nothing to find out."""
    match = _DATASET.fullmatch(path.rstrip("/"))
    return match is not None and bool(match["volume"] and match["version"])


def resume_problems(
    key: str,
    directory: str,
    max_steps: Any,
    *,
    prefix: str = "step_",
    home: str = "checkpoints/",
    steps: str = "max_steps",
) -> Iterator[Problem]:
    """What is wrong with the step directory that a config continues from.

    Args:
        max_steps: the config's, as it is there.
        prefix: of a step directory's name.
        home: directory of the step directories in a run's.
        steps: what the key of max_steps is called.
    """
    if not directory:
        return
    example = f"/volume/runs/RUN/{home}{prefix}100"
    last = directory.rstrip("/").rpartition("/")[2]
    found = re.fullmatch(re.escape(prefix) + "([0-9]+)", last)
    step = int(found[1]) if found else None
    if step is None or step < 1:
        yield Problem(
            key,
            f"has to end in {prefix}<digits>, ends in {last!r}.",
            f"Name a checkpoint's step directory, such as {example}.",
        )
    elif not directory.startswith("/volume/"):
        yield Problem(key, f"is not on the volume: {directory!r}.", f"Write it as in {example}.")
    else:
        yield from _outside(key, directory)
    whole = isinstance(max_steps, int) and not isinstance(max_steps, bool)
    if step is not None and whole and 0 < max_steps <= step:
        yield Problem(
            steps,
            f"is {max_steps}, and the checkpoint to continue from is at step {step} already.",
            f"It counts from the start of the original training: set it above {step}.",
        )


def _outside(key: str, path: str) -> Iterator[Problem]:
    if ".." in path.split("/") or any(ord(character) < 32 for character in path) or not path.strip("/"):
        yield Problem(key, f"is no plain path: {path!r}.", "Write it without '..' and control characters.")
