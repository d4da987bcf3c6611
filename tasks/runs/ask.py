"""Turns what people type into a request: config text, `key=value` changes, a parent and a step. Pure but for the
parent's record."""

from collections.abc import Mapping
from typing import Any, Literal

from blocks.clusters.errors import UsageError
from blocks.clusters.port import Cluster
from blocks.clusters.size import parse_size
from blocks.trainer_settings import TrainerSettings
from tasks.pod.trainers.schema import OURS, check
from tasks.pod.trainers.table import adapter
from tasks.pod.trainers.toml_config import set_keys
from tasks.pod.trainers.yaml_config import check_values
from tasks.runs.launch import read_run
from tasks.runs.request import IN_PLACE, ForkOf, Retention, RunRequest, WeightsRequest
from tasks.stages.source import DatasetRequest


def ask_run(
    run: str,
    config: str,
    trainer: TrainerSettings,
    *,
    changes: Mapping[str, Any] | None = None,
    model: str | None = None,
    volume: str | None = None,
    volume_size: str | None = None,
    dataset: DatasetRequest | None = None,
    weights: WeightsRequest = IN_PLACE,
    trust: tuple[str, ...] = (),
) -> RunRequest:
    """The request for a run from a config.

    Args:
        config: text in the trainer's own format; `volume`, `volume_size`, `when_full` and [retention] at its top are
            ours.
        changes: values by dotted key, applied to the config.
        model: base model in place of the config's.
        volume, volume_size: beat the config's.

    Raises:
        BadInputError: the config is malformed.
        UsageError: no volume is named, or the size is none.
    """
    how = adapter(trainer.kind, trainer.options)
    asked = set_keys(how.parse(config), changes or {})
    if model:
        asked = how.with_model(asked, model)
    check_values(asked)
    volume = volume or _text(asked, "volume")
    size = volume_size or _text(asked, "volume_size")
    if volume is None:
        raise UsageError("The run names no volume.", 'Say --volume, or put volume = "…" at the top of the config.')
    return RunRequest(
        run=run,
        volume=volume,
        volume_size=parse_size(size) if size else None,
        trainer=trainer,
        config={k: v for k, v in asked.items() if k not in OURS},
        dataset=dataset,
        weights=weights,
        retention=_retention(asked),
        when_full=_when_full(asked),
        trust=trust,
    )


def ask_fork(
    cluster: Cluster,
    volume: str,
    parent: str,
    run: str,
    *,
    step: int | Literal["latest"] = "latest",
    changes: Mapping[str, Any] | None = None,
    hold: Literal["link", "copy"] = "link",
    weights: WeightsRequest | None = None,
    trust: tuple[str, ...] = (),
) -> RunRequest:
    """The request for a run that continues from a completed step of `parent`, with its config and some changes.

    Args:
        weights: where it reads its weights; None for where `parent` does.

    Raises:
        NotFoundError: no such volume or parent.
        BadInputError: a change names a key that can not be.
    """
    theirs = read_run(cluster, volume, parent).plan
    config = theirs.request.adapter.without_resume(theirs.config)
    if theirs.request.retention:
        config["retention"] = theirs.request.retention.model_dump(exclude_none=True)
    asked = set_keys({"when_full": theirs.request.when_full, **config}, changes or {})
    return RunRequest(
        run=run,
        volume=volume,
        trainer=theirs.request.trainer,
        config={k: v for k, v in asked.items() if k not in ("retention", "when_full")},
        retention=_retention(asked),
        when_full=_when_full(asked),
        fork_of=ForkOf(run=parent, step=step, hold=hold),
        weights=theirs.request.weights if weights is None else weights,
        trust=trust,
    )


def _retention(config: Mapping[str, Any]) -> Retention | None:
    given = _ours(config, "retention")
    return None if given is None else Retention.model_validate(given)


def _when_full(config: Mapping[str, Any]) -> Literal["hold", "warn"]:
    return "warn" if _ours(config, "when_full") == "warn" else "hold"


def _ours(config: Mapping[str, Any], key: str) -> Any:
    """Raises: UsageError: the platform's key has a value that can not be."""
    if key not in config:
        return None
    for problem in check({key: config[key]}, {}):
        raise UsageError(f"{problem.key} in the config {problem.reason}", problem.remedy)
    return config[key]


def _text(config: Mapping[str, Any], key: str) -> str | None:
    value = config.get(key)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{key} at the top of the config is {value!r}.", f'Write text: {key} = "…".')
    return value
