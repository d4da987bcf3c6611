"""Makes Hugging Face weights on the volume out of a run's completed checkpoint."""

from typing import Any

from blocks.clusters.errors import UsageError
from blocks.clusters.port import Cluster
from tasks.plans.origin import choose
from tasks.plans.plan import Blocked
from tasks.runs.launch import checkpoints, read_run

_DAY = 86_400.0


def export_weights(cluster: Cluster, volume: str, run: str, step: int | str, name: str | None) -> dict[str, Any]:
    """Put the weights of a step into models/<name>; return what `tasks.pod.export_weights` did, and the step.

    Args:
        step: a completed one, or "latest".
        name: of the directory; None for one made of run and step.

    Raises:
        NotFoundError: no such run.
        UsageError: no such step, or it is not complete.
        ProgramError: its format has no such weights; names the tool that makes some.
    """
    plan = read_run(cluster, volume, run).plan
    try:
        chosen = choose(checkpoints(cluster, plan), run, step, weights_will_do=True)
    except Blocked as blocked:
        raise UsageError(blocked.item.detail, blocked.item.remedy) from None
    arguments = {
        "source": f"runs/{run}/{chosen['path']}",
        "fingerprint": chosen["fingerprint"],
        "format": chosen["format"],
        "base": plan.resolved.weights.path,
        "name": name or f"{run}-step-{chosen['step']}",
    }
    answer = cluster.call(volume, "weights.export", arguments, writable=True, timeout_seconds=_DAY)
    return {"run": run, "step": chosen["step"], **answer}
