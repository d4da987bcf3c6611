"""How a pod or a process of somebody else reads a staged snapshot: mounts, environment, path. Pure."""

import shlex
from typing import Any

from blocks.clusters.job import Frozen

MOUNTED = "/volume"

READERS = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
"""What every reader needs besides HF_HUB_CACHE. HF_HOME stays its own: caches and tokens are written there."""


class ModelMount(Frozen):
    """A staged snapshot, as a reader mounts it.

    Args:
        volume: its name: on Kubernetes, of the claim.
        root: where the reader sees the volume.
        path: absolute, of the snapshot; what `from_pretrained` takes.
    """

    volume: str
    root: str
    path: str
    repo: str
    commit: str
    env: dict[str, str]
    pod: bool

    def text(self) -> str:
        """For people to paste: YAML of a pod, or lines of a shell."""
        return self._pod() if self.pod else self._shell()

    def _shell(self) -> str:
        lines = [f"export {name}={shlex.quote(value)}" for name, value in self._environment().items()]
        return f"# {self.repo} at {self.commit}\n" + "".join(f"{line}\n" for line in lines)

    def _pod(self) -> str:
        env = "".join(
            f'        - {{ name: {name}, value: "{value}" }}\n' for name, value in self._environment().items()
        )
        return (
            f"# {self.repo} at {self.commit}\n"
            "spec:\n"
            "  containers:\n"
            "    - env:\n"
            f"{env}"
            "      volumeMounts:\n"
            f"        - {{ name: slipway, mountPath: {self.root}, readOnly: true }}\n"
            "  volumes:\n"
            f"    - {{ name: slipway, persistentVolumeClaim: {{ claimName: {self.volume} }} }}\n"
        )

    def _environment(self) -> dict[str, str]:
        return {**self.env, "MODEL_PATH": self.path}


def mount_of(volume: str, found: dict[str, Any], *, pod: bool = False) -> ModelMount:
    """How to read a snapshot.

    Args:
        found: as `snapshots.find` answers; its "root" tells whether the volume is a directory of this machine.
        pod: for a pod in any case.
    """
    in_pod = pod or found["root"] == MOUNTED
    root = MOUNTED if in_pod else found["root"]
    return ModelMount(
        volume=volume,
        root=root,
        path=f"{root}/{found['path']}",
        repo=found["repo"],
        commit=found["commit"],
        env={"HF_HUB_CACHE": f"{root}/hub", **READERS},
        pod=in_pod,
    )
