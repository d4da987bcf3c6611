"""Exports a run, or one of its completed checkpoints, to a bucket."""

from typing import Any

from blocks.bucket_access import BucketAccess
from blocks.clusters.errors import UsageError
from blocks.clusters.port import Cluster
from tasks.plans.origin import choose
from tasks.plans.plan import Blocked
from tasks.pod.export import export_identity
from tasks.runs.launch import checkpoints, read_run
from tasks.stages.stage import Notice, stage


def export(
    cluster: Cluster, volume: str, run: str, step: int | str | None, bucket: BucketAccess, prefix: str, notice: Notice
) -> dict[str, Any]:
    """Upload one step, or all of a run but what is not provably complete; return what `tasks.pod.export` did.

    Args:
        step: a completed one, or "latest"; None for the whole run.

    Raises:
        NotFoundError: no such run.
        UsageError: no such step, or it is not complete.
        StagingError: the upload failed; asked again, what has arrived is not sent again.
    """
    found = checkpoints(cluster, read_run(cluster, volume, run).plan)
    target = bucket.at(prefix)
    arguments: dict[str, Any] = {"source": f"runs/{run}", "target": target}
    if step is None:
        arguments["leave_out"] = [c["path"] for c in found if c["verdict"] != "complete" and c["path"] != "."]
    else:
        try:
            chosen = choose(found, run, step)
        except Blocked as blocked:
            raise UsageError(blocked.item.detail, blocked.item.remedy) from None
        arguments |= {"source": f"runs/{run}/{chosen['path']}", "fingerprint": chosen["fingerprint"]}
    key = export_identity(arguments["source"], target)
    return stage(cluster, volume, "runs", key, arguments, notice, program="export", access=bucket)
