"""What is asked for when a run is asked for, its identity, and how two requests differ. Pure."""

import hashlib
import json
from typing import Any, Literal

from pydantic import ConfigDict, Field

from blocks.clusters.job import Frozen
from blocks.clusters.names import fit_name
from blocks.trainer_settings import TrainerSettings
from tasks.pod.trainers.adapter import Adapter
from tasks.pod.trainers.table import adapter
from tasks.stages.source import DatasetRequest

RUN_ID_LONGEST = 48
"""Leaves room for what is added to it in job names and by Kubernetes in pod names."""


class ForkOf(Frozen):
    """The checkpoint of another run to continue from.

    Args:
        run: the parent.
        step: a completed step, or "latest" for the newest completed one.
        hold: "link" costs no bytes, "copy" is safe against a parent that saves the step again.
    """

    run: str
    step: int | Literal["latest"] = "latest"
    hold: Literal["link", "copy"] = "link"


class Retention(Frozen):
    """What `slipway prune` keeps of a run besides its newest complete checkpoint, and what is held.

    Args:
        keep_last: so many of the newest complete ones.
        keep_every: those at multiples of so many steps.
    """

    keep_last: int | None = Field(default=None, ge=1)
    keep_every: int | None = Field(default=None, ge=1)

    def __str__(self) -> str:
        last = f"the last {self.keep_last}" if self.keep_last else ""
        every = f"every {self.keep_every} steps" if self.keep_every else ""
        return " and ".join(filter(None, (last, every))) or "everything"


class WeightsRequest(Frozen):
    """Where a run reads its weights: in place on the volume, or from a copy on the node."""  # the Run form shows this

    model_config = ConfigDict(title="Weights")

    placement: Literal["volume", "hydrate", "node"] = Field(
        default="volume",
        title="Read from",
        description="volume: in place. hydrate: a copy in the scratch of the run. node: a copy that runs on the node "
        "share, if the cluster has a node cache.",
        json_schema_extra={"position": 0},
    )
    fallback: bool = Field(
        default=False,
        title="In place if need be",
        description="Read them in place where there is no room for a copy. Off: that stops the run.",
        json_schema_extra={"position": 1},
    )
    sha256: bool = Field(
        default=False,
        title="Prove by sha256",
        description="Read every copy once more to prove it by sha256, not by the fast hash alone.",
        json_schema_extra={"position": 2},
    )


IN_PLACE = WeightsRequest()


class RunRequest(Frozen):
    """One training run as it was asked for.

    Args:
        run: its id, unique on the volume.
        config: the trainer's own config, overrides applied.
        volume_size: bytes, for a volume that has to be created.
        dataset: staged first if it is not on the volume.
        when_full: what becomes of the run when its next save would not fit onto the volume: it is held until there is
            room, or goes on with a warning.
        retention: the run's own policy; None to keep everything, or what a volume's policy keeps.
        trust: paths of `unknown` checkpoints that a person has vouched for: `checkpoints/step_40` of the run itself or
            of the one that is forked, or `runs/<run>/…`. It belongs to an attempt: no part of the request's hash.
    """

    run: str
    volume: str
    volume_size: int | None = None
    trainer: TrainerSettings
    config: dict[str, Any]
    dataset: DatasetRequest | None = None
    fork_of: ForkOf | None = None
    weights: WeightsRequest = IN_PLACE
    retention: Retention | None = None
    when_full: Literal["hold", "warn"] = "hold"
    trust: tuple[str, ...] = ()

    def asked(self) -> dict[str, Any]:
        """What makes two requests under one name the same request."""
        included = {"trainer", "config", "dataset", "fork_of"} | ({"weights"} if self.weights != IN_PLACE else set())
        asked = self.model_dump(mode="json", include=included, exclude={"dataset": {"bucket"}})
        # as it was before there were any, and before several nodes could be asked for
        if not self.trainer.options:
            del asked["trainer"]["options"]
        if self.trainer.resources.nodes == 1:
            del asked["trainer"]["resources"]["nodes"]
        return asked

    @property
    def adapter(self) -> Adapter:
        """Raises: BadInputError: there is no such trainer, or it is set up wrongly."""
        return adapter(self.trainer.kind, self.trainer.options)

    def request_hash(self) -> str:
        return hash_request(self.asked())


def hash_request(asked: dict[str, Any]) -> str:
    return hashlib.sha256(_text(asked).encode()).hexdigest()[:32]


def _text(asked: Any) -> str:
    return json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def run_id(name: str | None, place: str, root_flow_run: str) -> str:
    """The given name, else one made of the root flow run and the place in it: the same on every retry.

    Args:
        place: which of the flow's runs, such as "finetune".
        root_flow_run: id of the outermost flow run. Its last characters are used: the first ones are a time.
    """
    if name:
        return name
    return fit_name(place, root_flow_run.replace("-", "")[-10:], longest=RUN_ID_LONGEST)


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs between two requests, as `key: old → new`, by dotted key."""
    return [f"{key}: {_show(a)} → {_show(b)}" for key, a, b in changes(old, new)]


def changes(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> list[tuple[str, Any, Any]]:
    """The dotted keys whose values differ, with both; None where a key is not set."""
    found: list[tuple[str, Any, Any]] = []
    for key in sorted({*old, *new}):
        a, b = old.get(key), new.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += changes(a, b, f"{prefix}{key}.")
        elif _text(a) != _text(b):  # 1, 1.0 and true are equal to Python, and three requests
            found.append((f"{prefix}{key}", a, b))
    return found


def _show(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if value is not None else "not set"
