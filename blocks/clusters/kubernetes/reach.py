"""From which nodes a persistent volume can be mounted: node affinity, as the scheduler reads it. Pure."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def reaches(source: Json, labels: Mapping[str, str], node: str) -> bool:
    """Whether a node can mount a persistent volume.

    Args:
        source: the PersistentVolume.
        labels: of the node.
        node: its name.
    """
    required = (source["spec"].get("nodeAffinity") or {}).get("required")
    if required is None:
        return True
    return any(
        all(_holds(rule, labels) for rule in term.get("matchExpressions") or ())
        and all(_holds(rule, {"metadata.name": node}) for rule in term.get("matchFields") or ())
        for term in required.get("nodeSelectorTerms") or ()
        if term.get("matchExpressions") or term.get("matchFields")  # an empty term selects nothing
    )


def _holds(rule: Json, labels: Mapping[str, str]) -> bool:
    there, values = labels.get(rule["key"]), rule.get("values") or []
    match rule["operator"]:
        case "In":
            return there in values
        case "NotIn":
            return there not in values
        case "Exists":
            return there is not None
        case "DoesNotExist":
            return there is None
        case "Gt" | "Lt" as order if there is not None and _is_whole(there):
            return int(there) > int(values[0]) if order == "Gt" else int(there) < int(values[0])
    return False


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdigit()
