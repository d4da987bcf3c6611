"""How far a secret has come."""

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blocks.clusters.kubernetes.cluster import KubernetesCluster


@contextmanager
def argv_of_all() -> Iterator[set[str]]:
    """The command lines of all processes of this machine while the block runs, those in pods included."""
    seen: set[str] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.3):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    seen.add(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        ended.set()
        looking.join()


def found_in_objects(cluster: KubernetesCluster, secret: str) -> list[str]:
    """Objects and logs of the namespace that have a secret, Secrets aside."""
    core, found = f"/api/v1/namespaces/{cluster.owner}", []
    kinds = [f"{core}/{kind}" for kind in ("pods", "events", "configmaps", "persistentvolumeclaims", "services")]
    jobs, deployments = (f"/apis/{group}/v1/namespaces/{cluster.owner}" for group in ("batch", "apps"))
    for path in (*kinds, f"{jobs}/jobs", f"{deployments}/deployments"):
        found += [path for item in cluster.api.items(path) if secret in str(item)]
    for pod in cluster.api.items(f"{core}/pods"):
        name = pod["metadata"]["name"]
        for part in ("containerStatuses", "initContainerStatuses"):
            for container in pod["status"].get(part) or ():
                if not container["state"].get("waiting"):
                    log = cluster.api.text(f"{core}/pods/{name}/log", {"container": container["name"]})
                    found += [f"log of {name}"] if secret.encode() in b"".join(log) else []
    return found
