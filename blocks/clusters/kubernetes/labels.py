"""Labels and annotations of what we make: labels select, annotations keep the raw values that no label can. Pure."""

import hashlib
import re
from collections.abc import Mapping

OURS = {"app.kubernetes.io/managed-by": "slipway"}
KIND = "slipway.dev/kind"  # volume, job, call, session
NAME = "slipway.dev/name"
CLAIM = "slipway.dev/claim"
INTERNAL = "slipway.dev/internal"
WRITABLE = "slipway.dev/writable"
QUEUE = "kueue.x-k8s.io/queue-name"

REQUEST_HASH = "slipway.dev/request-hash"
LABELS = "slipway.dev/labels"  # JSON: the port's labels as they were given
MOUNTS = "slipway.dev/mounts"  # JSON
DEADLINE = "slipway.dev/deadline-seconds"
SUBMITTED = "slipway.dev/submitted-at"  # to the microsecond: Kubernetes' own times are whole seconds
STOP = "slipway.dev/stop"  # when it was asked to stop
ALIVE = "alive"  # the container that says how long a pod lives, beside what it is for
END = "slipway.dev/end"  # JSON: how it ended where Kubernetes itself would go on waiting

_LONGEST = 63
_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?")


def label_value(raw: str) -> str:
    """A valid label value for any text: itself where it is one, else cleaned and ending in a hash of the whole."""
    if len(raw) <= _LONGEST and _VALUE.fullmatch(raw):
        return raw
    clean = re.sub(r"[^A-Za-z0-9_.-]+", "-", raw)[: _LONGEST - 9].strip("-_.")
    return f"{clean}-{hashlib.sha256(raw.encode()).hexdigest()[:8]}".lstrip("-")


def label_values(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: label_value(value) for key, value in labels.items()}


def selector(labels: Mapping[str, str]) -> str:
    """A label selector for exactly these."""
    return ",".join(f"{key}={value}" for key, value in sorted(label_values(labels).items()))


def claim_label(volume: str) -> str:
    """A label of its own for each volume that a pod mounts: one pod may mount several."""
    return f"{CLAIM}.{hashlib.sha256(volume.encode()).hexdigest()[:12]}"
