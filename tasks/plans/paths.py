"""Whether what a config names on the volume is there: validation data, templates, scripts, other configs."""

from collections.abc import Iterator, Mapping
from typing import Any

from blocks.clusters.port import Cluster
from tasks.plans.plan import Blocked
from tasks.pod.trainers.references import names_dataset
from tasks.runs.request import RunRequest


def check_paths(cluster: Cluster, volume: str | None, request: RunRequest) -> None:
    """Look for every `/volume/…` of a config besides what is found otherwise (its model, dataset and checkpoint).

    Args:
        volume: None while it does not exist.

    Raises:
        Blocked: one is not there; names its key.
    """
    adapter = request.adapter
    if adapter.problems(request.config):
        return
    needs = adapter.needs(request.config)
    known = {needs.model, needs.resume, needs.dataset}
    own = f"/volume/runs/{request.run}"
    named = {key: path for key, path in _paths(request.config) if not _is_found_otherwise(path.rstrip("/"), known, own)}
    if not named:
        return
    key, path = next(iter(named.items()))
    if volume is None:
        raise Blocked(f"config {key}", f"{path} is on a volume that does not exist yet.", "Put it there first.")
    missing = set(cluster.call(volume, "volume.missing", {"paths": list(named.values())})["missing"])
    for key, path in named.items():
        if path in missing:
            what = "Stage it first." if names_dataset(path) else "Put it there first, or correct the path."
            raise Blocked(f"config {key}", f"{path} is not on volume {volume}.", what)


def _is_found_otherwise(path: str, known: set[str | None], own: str) -> bool:
    return path in known or path.removeprefix("/volume/") in known or path == own or path.startswith(f"{own}/")


def _paths(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _paths(inner, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _paths(inner, f"{prefix}.{place}")
    elif isinstance(value, str) and value.startswith("/volume/") and not prefix.endswith("output_dir"):
        yield prefix, value
