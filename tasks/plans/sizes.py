"""Whether a run's checkpoints fit onto its volume, worked out before it starts. Pure but for a look at the weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from blocks.clusters.port import Cluster
from blocks.clusters.size import format_size
from tasks.plans.plan import Blocked, Mark
from tasks.pod.trainers.adapter import ModelSize, Needs
from tasks.runs.records import Weights
from tasks.runs.request import RunRequest
from tasks.stages.resolve import SnapshotToStage

_BFLOAT16, _FLOAT32 = 2, 4


@dataclass(frozen=True)
class Parameters:
    """How many parameters a model has: counted in its files' headers, else between two bounds by their size.

    Args:
        least, most: the same where they were counted.
        linear: as `tasks.pod.trainers.adapter.ModelSize` has it.
    """

    least: int
    most: int
    linear: Mapping[str, int] | None = None

    @property
    def counted(self) -> bool:
        return self.least == self.most


def count_parameters(
    cluster: Cluster, volume: str | None, weights: Weights, snapshot: SnapshotToStage | None
) -> Parameters:
    """
    Args:
        volume: None while it does not exist.
        snapshot: what has to be staged; its size bounds the parameters, at 4 to 2 bytes each.
    """
    if volume is not None and (snapshot is None or snapshot.staged):
        found = cluster.call(volume, "weights.inspect", {"path": weights.path})
        if found["ok"]:
            return Parameters(found["parameters"], found["parameters"], found["linear"])
    size = weights.bytes or 0
    return Parameters(size // _FLOAT32, size // _BFLOAT16)


def saves(needs: Needs, start: int) -> int | None:
    """How many checkpoints a run makes; None where nothing tells.

    Args:
        start: the step that it continues from.
    """
    if needs.checkpoint_every == 0:
        return 0
    if needs.max_steps is None:
        return None
    if needs.checkpoint_every is None:
        return 1
    return -(-needs.max_steps // needs.checkpoint_every) - start // needs.checkpoint_every


def check_checkpoints(
    request: RunRequest, needs: Needs, parameters: Parameters, start: int, free: int, add: Callable[..., None]
) -> None:
    """One line of the plan: a checkpoint's bytes, the most that lie there at once, and what is free for them.

    Trainers delete an old checkpoint after the new one is saved, so one more than they keep lies there for a while.

    Args:
        free: bytes on the volume once everything is staged.

    Raises:
        Blocked: not even one fits, or not those that the trainer itself keeps.
    """
    count = saves(needs, start)
    most = request.adapter.checkpoint_bytes(request.config, ModelSize(parameters.most, parameters.linear))
    if count == 0 or most is None:
        return
    least = request.adapter.checkpoint_bytes(request.config, ModelSize(parameters.least, parameters.linear)) or 0
    at_once = count if needs.keep_last is None else min(count or needs.keep_last + 1, needs.keep_last + 1)
    about = "" if parameters.counted else "at most "
    one = f"a checkpoint takes {about}{format_size(most)}"
    grow = "Grow the volume, or make room: `slipway prune` says what can go."
    if least > free:
        raise Blocked("checkpoints", f"{one}, and {format_size(free)} are free.", grow)
    peak = most * (at_once or 1)
    what = f"{one}, {at_once} of them {format_size(peak)}" if at_once else f"{one}, and how many are saved is not known"
    if least * (at_once or 1) > free and needs.keep_last is not None:
        raise Blocked("checkpoints", f"{what}, and {format_size(free)} are free.", f"Keep fewer. {grow}")
    if peak > free:
        fit = free // most if most else 0
        add(
            Mark.WARNING,
            "checkpoints",
            f"{what}, and {format_size(free)} are free: there is room for {fit}.",
            f"Let the trainer keep fewer. {grow}",
        )
    else:
        add(Mark.READY, "checkpoints", f"{what}; {format_size(free)} are free")
