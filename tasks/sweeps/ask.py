"""Turns what people write into a sweep's request: a TOML file, or the parameters of a flow. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from blocks.clusters.errors import UsageError
from blocks.clusters.names import check_name
from blocks.reasons import reason
from tasks.pod.trainers.schema import nearest
from tasks.pod.trainers.toml_config import parse
from tasks.runs.request import RunRequest
from tasks.sweeps.axes import Axis
from tasks.sweeps.spec import SWEEP_NAME_LONGEST, Search, SweepRequest

_OF_FILE = ("name", "config", "set", "volume", "volume_size", "trainer", "dataset")


@dataclass(frozen=True)
class SweepFile:
    """What a sweep file says.

    Args:
        config: the base config: a file, or the table itself.
        changes: to the base config, by dotted key.
        dataset: `name`, `source` and perhaps `version` of one to stage.
    """

    search: Search
    name: str | None = None
    config: Path | dict[str, Any] | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    volume: str | None = None
    volume_size: str | None = None
    trainer: str | None = None
    dataset: dict[str, Any] | None = None


def read_sweep_file(path: Path) -> SweepFile:
    """Read a sweep file; a config in it is named relative to the file.

    Raises:
        UsageError: it is not there, or has a key or a value that it can not have.
        BadInputError: it is no TOML; says where.
    """
    try:
        content = parse(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(f"The sweep file {str(path)!r} can not be read: {error.strerror}.", "Name another.") from None
    ours = {key: content.pop(key) for key in _OF_FILE if key in content}
    search = read_search(content, str(path), _OF_FILE)
    for key, kind, example in (
        ("name", str, 'name = "lr"'),
        ("volume", str, 'volume = "research"'),
        ("volume_size", str, 'volume_size = "500Gi"'),
        ("trainer", str, 'trainer = "tiny"'),
        ("config", str | dict, 'config = "finetune.toml"'),
        ("set", dict, "set = { seed = 1 }"),
        ("dataset", dict, 'dataset = { name = "harbour", source = "./data" }'),
    ):
        if key in ours and not isinstance(ours[key], kind):
            raise UsageError(f"{path}: {key} is {ours[key]!r}.", f"Write it as in {example}.")
    if wrong := [key for key, value in ours.get("dataset", {}).items() if not isinstance(value, str)]:
        raise UsageError(f"{path}: dataset.{wrong[0]} is {ours['dataset'][wrong[0]]!r}.", "Write it in quotes.")
    config = ours.get("config")
    return SweepFile(
        search=search,
        name=ours.get("name"),
        config=path.parent / config if isinstance(config, str) else config,
        changes=_flat_changes(ours.get("set", {})),
        volume=ours.get("volume"),
        volume_size=ours.get("volume_size"),
        trainer=ours.get("trainer"),
        dataset=ours.get("dataset"),
    )


def read_search(content: Mapping[str, Any], source: str, more: tuple[str, ...] = ()) -> Search:
    """A search from plain JSON or TOML.

    Args:
        source: what errors call it.
        more: keys beside the search's own that it may have been meant to have.

    Raises:
        UsageError: an unknown key, with the nearest known one; a value that can not be.
    """
    axes = content.get("axes")
    try:
        return Search.model_validate({**content, **({"axes": _flat(axes)} if isinstance(axes, dict) else {})})
    except RecursionError:
        raise UsageError(f"{source}: the axes are nested too deeply.", "Write them as in [axes.optim.lr].") from None
    except ValidationError as error:
        raise UsageError(f"{source}: {_explain(error, more)}", "Mend that key.") from None


def ask_sweep(name: str, search: Search, base: RunRequest) -> SweepRequest:
    """The request for a sweep.

    Args:
        base: the run that trials vary.

    Raises:
        UsageError: a name that can not be, or a base that continues from a checkpoint.
    """
    check_name("sweep", name)
    if len(name) > SWEEP_NAME_LONGEST:
        raise UsageError(
            f"The sweep name {name!r} has {len(name)} characters.",
            f"{SWEEP_NAME_LONGEST} at most are allowed: trials are called after it.",
        )
    if "resume" in base.config:
        raise UsageError("The config of a sweep has [resume].", "Remove it: trials begin from the base weights.")
    return SweepRequest(sweep=name, search=search, base=base)


def _flat(axes: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Axes by dotted key, also where TOML has read `[axes.optim.lr]` as tables in tables."""
    found: dict[str, Any] = {}
    for key, value in axes.items():
        tables = isinstance(value, dict) and bool(value) and all(isinstance(v, dict) for v in value.values())
        if tables and not value.keys() & Axis.model_fields.keys():
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def _flat_changes(changes: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Changes by dotted key. In TOML `optim.lr = 0.1` is a table, which must not replace all of [optim]."""
    found: dict[str, Any] = {}
    for key, value in changes.items():
        if isinstance(value, dict) and value:
            found |= _flat_changes(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def _explain(error: ValidationError, more: tuple[str, ...]) -> str:
    """The first problem in one sentence; an unknown key with the nearest known one."""
    first = error.errors()[0]
    loc = [str(part) for part in first["loc"]]
    key = ".".join(loc)
    if first["type"] != "extra_forbidden":
        return f"{key}: {reason(first)}." if key else f"{reason(first)}."
    known = [*_model_at(loc[:-1]).model_fields, *(more if len(loc) == 1 else ())]
    near = nearest(loc[-1], known)
    hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}."
    return f"the key {key} is unknown; {hint}"


def _model_at(loc: list[str]) -> type[BaseModel]:
    if loc[:1] == ["axes"]:
        return Axis
    model: type[BaseModel] = Search
    for part in loc:
        annotation = model.model_fields[part].annotation
        candidates = [a for a in (annotation, *get_args(annotation)) if isinstance(a, type)]
        model = next((a for a in candidates if issubclass(a, BaseModel)), model)
    return model
