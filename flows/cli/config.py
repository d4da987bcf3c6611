"""Reads what people hand to `train` and `fork`: a config file, `key=value` changes, `NAME=SOURCE`. Changes nothing."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from blocks.settings import Settings
    from tasks.stages.source import DatasetRequest, SourceRequest, WeightsToStage

Asked = TypeVar("Asked", bound="SourceRequest")


def read_config(path: Path) -> str:
    """The text of a config.

    Raises:
        UsageError: it is not there, is a directory, or can not be read.
        BadInputError: it is not UTF-8; says where.
    """
    from blocks.clusters.errors import UsageError
    from tasks.pod.trainers.toml_config import parse

    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"There is no config {str(path)!r}.", "Name a file that is there.") from None
    except IsADirectoryError:
        raise UsageError(f"{str(path)!r} is a directory.", "Name the config in it.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"The config {str(path)!r} can not be read: {reason}.", "Name another file.") from None
    try:
        return content.decode()
    except UnicodeDecodeError:
        parse(content, str(path))  # says where it is not UTF-8
        raise


def read_changes(assignments: Sequence[str] | None, **more: Any) -> dict[str, Any]:
    """`key=value` by dotted key; a key that is set twice has its last value.

    Args:
        more: further keys; None for those that were not given.

    Raises:
        BadInputError: one of them sets no key.
    """
    from tasks.pod.trainers.toml_config import parse_assignment

    changes = dict(parse_assignment(text) for text in assignments or ())
    return changes | {key: value for key, value in more.items() if value is not None}


def read_dataset(text: str | None, settings: "Settings") -> "DatasetRequest | None":
    """`NAME=SOURCE` or `NAME/VERSION=SOURCE`.

    Raises:
        UsageError: it is no such thing.
    """
    from blocks.clusters.errors import UsageError

    if text is None:
        return None
    named, equals, source = text.partition("=")
    if not equals:
        raise UsageError(f"{text!r} names no dataset.", "Write NAME=SOURCE, such as harbour=./data/harbour.")
    name, _, version = named.partition("/")
    return dataset_request(name, source, version or None, settings)


def dataset_request(name: str, source: str, version: str | None, settings: "Settings") -> "DatasetRequest":
    """A dataset to stage; a folder is named absolutely, so that it is the same from wherever it is asked for.

    Args:
        settings: know how to reach the bucket of an s3:// source.

    Raises:
        UsageError: a name, version or source that can not be.
    """
    from tasks.stages.source import DatasetRequest

    return _asked(DatasetRequest, "dataset", settings, name=name, source=source, version=version)


def weights_request(name: str, source: str, settings: "Settings") -> "WeightsToStage":
    """The same for weights."""
    from tasks.stages.source import WeightsToStage

    return _asked(WeightsToStage, "weights", settings, name=name, source=source)


def _asked(kind: "type[Asked]", what: str, settings: "Settings", *, source: str, **more: Any) -> "Asked":
    from pydantic import ValidationError

    from blocks.clusters.errors import UsageError
    from tasks.stages.source import bucket_of

    if source and "://" not in source and not source.startswith("/volume/"):
        source = str(Path(source).expanduser().resolve())
    try:
        named = bucket_of(source)
        return kind(source=source, bucket=settings.bucket(named[0]) if named else None, **more)
    except ValidationError as error:
        first = error.errors()[0]
        part, given = str(first["loc"][0]), first["input"]
        if part == "source":
            reason = first["msg"].removeprefix("Value error, ") if given else f"the source of the {what} is empty"
            raise UsageError(f"{reason[0].upper()}{reason[1:]}.", "") from None
        raise UsageError(
            f"{given!r} can not be the {part} of {what if what == 'weights' else f'a {what}'}.",
            "Use letters, digits, dots, hyphens and underscores, starting with a letter or digit.",
        ) from None


def new_name(place: str) -> str:
    """A name for a run that was given none."""
    from tasks.runs.request import run_id

    return run_id(None, place, secrets.token_hex(8))
