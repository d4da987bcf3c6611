"""A strategic merge of pods, as `kubectl patch` does it: lists of named things merge by name. Pure."""

from collections.abc import Mapping
from typing import Any

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
}
"""Key of a list in a pod → what its entries are told apart by; other lists are replaced."""


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `patch` applied; a null removes a key."""
    merged = dict(base)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            inner = merged.get(key)
            merged[key] = merge(inner if isinstance(inner, Mapping) else {}, value)
        elif isinstance(value, list) and key in _KEYS and isinstance(merged.get(key), list):
            merged[key] = _merge_lists(merged[key], value, _KEYS[key])
        else:
            merged[key] = value
    return merged


def _merge_lists(base: list[dict[str, Any]], patch: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Entries that `base` has stay in place, new ones follow; `$patch: delete` removes one."""
    changes = {entry.get(key): entry for entry in patch}
    merged = []
    for entry in base:
        change = changes.pop(entry.get(key), {})
        if change.get("$patch") != "delete":
            merged.append(merge(entry, change))
    return merged + [dict(entry) for entry in changes.values() if entry.get("$patch") != "delete"]
