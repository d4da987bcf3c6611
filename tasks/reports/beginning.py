"""What it took until a run trained, in its parts: the download, the wait, the weights, the first step. Pure."""

from collections.abc import Iterable
from typing import Any

from blocks.clusters.size import format_size
from tasks.pod.hydrate import describe
from tasks.runs.records import Attempt, Hydration, PlanRecord, Weights


def beginning(plan: PlanRecord, attempt: Attempt | None, metrics: Iterable[dict[str, Any]]) -> dict[str, str]:
    """What is known of it, in words; what is not known yet is left out.

    Args:
        attempt: the last one.
        metrics: lines of the run's metrics file.
    """
    told = {"download": _download(plan.resolved.weights)}
    if attempt is not None:
        first = first_step_seconds(attempt, metrics)
        told |= {
            "start": _start(attempt),
            "weights read": _weights_read(attempt.weights) if attempt.weights else "",
            "node": _node(attempt),
            "first step": f"{first:.1f} s after its start" if first else "",
        }
    return {name: text for name, text in told.items() if text}


def first_step_seconds(attempt: Attempt, metrics: Iterable[dict[str, Any]]) -> float | None:
    """From the start of an attempt's job to its first step; None where the trainer tells no times."""
    if attempt.started_at is None:
        return None
    begun = attempt.started_at.timestamp()
    times = [float(m["time"]) for m in metrics if isinstance(m.get("time"), int | float) and m["time"] >= begun]
    return round(min(times) - begun, 3) if times else None


def waited_seconds(attempt: Attempt) -> float | None:
    """From an attempt's launch to the start of its job: in queues, for a node, for its image."""
    if attempt.started_at is None:
        return None
    return round(max(0.0, (attempt.started_at - attempt.created_at).total_seconds()), 3)


def _download(weights: Weights) -> str:
    if weights.download is None:
        return "none: staged before" if weights.repo else ""
    rate = weights.download.bytes / 1e6 / max(weights.download.seconds, 1e-3)
    return f"{format_size(weights.download.bytes)} in {weights.download.seconds:.1f} s ({rate:.0f} MB/s)"


def _start(attempt: Attempt) -> str:
    waited = waited_seconds(attempt)
    return "" if waited is None else f"{waited:.1f} s after its launch"


def _weights_read(read: Hydration) -> str:
    where = {"volume": "", "hydrate": "in scratch: ", "node": "in the node's cache: "}[read.read_from]
    return where + describe(read.model_dump())


def _node(attempt: Attempt) -> str:
    """Where it ran, and whether that was one of those that were preferred for having its weights."""
    node, preferred = attempt.weights.node if attempt.weights else None, attempt.preferred_nodes
    if node is None:
        return ""
    if not preferred:
        return f"{node}; none was known to have the weights"
    if node not in preferred:
        return f"{node}; preferred for having the weights: {', '.join(preferred)}"
    return f"{node}, one of {len(preferred)} preferred for having the weights"
