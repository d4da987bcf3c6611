"""What many runs on Kubernetes cost, launched and followed by one process: requests, launches a second, memory.

`python -m benchmarks.kubernetes [RUNS]`, 200 by default, on the test cluster (see docs/kubernetes.md). Each run is a
whole one (claimed, prepared, its pod with its init command, followed, its end written down) of a program that ends at
once. Their weights are staged once, before anything is measured.
"""

import resource
import sys
import tempfile
import threading
import time
from pathlib import Path

from blocks.clusters.kubernetes.cluster import KubernetesCluster
from blocks.hub_access import HubAccess
from blocks.trainer_settings import Resources, TrainerSettings
from deployments.demo.assets import REPO, write_model
from deployments.hub.server import HubServer
from tasks.plans.check import make_plan
from tasks.runs.ask import ask_run
from tasks.runs.claim import claim
from tasks.runs.follow import follow
from tasks.runs.launch import launch
from tasks.stages.staged import stage_snapshot
from tasks.stages.volume import ensure_volume
from tests.cluster.access import owner_of_its_own, start

TRAINER = TrainerSettings(
    kind="command",
    options={"command": ["true"], "keys": {"model": "model"}},
    resources=Resources(cpus=0.01),
)


def main(count: int) -> None:
    kubernetes = start()
    with owner_of_its_own(kubernetes) as owner, tempfile.TemporaryDirectory() as folder:
        cluster = kubernetes.connect(owner, pod_patch={"spec": {"hostNetwork": True}})
        write_model(Path(folder, "models", REPO))
        with HubServer(Path(folder)) as hub:
            threading.Thread(target=hub.serve_forever, daemon=True).start()
            _measure(cluster, HubAccess(endpoint=hub.endpoint), count)


def _measure(cluster: KubernetesCluster, hub: HubAccess, count: int) -> None:
    requests = [ask_run(f"run-{n}", f'model = "{REPO}"', TRAINER, volume="v", volume_size="1Gi") for n in range(count)]
    ensure_volume(cluster, "v", None)
    plan = make_plan(cluster, hub, requests[0])
    assert plan.snapshot and not plan.blocked, plan.blocked
    weights = stage_snapshot(cluster, hub, "v", plan.snapshot, lambda note: None)
    before, asked = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, cluster.api.requests
    began = time.monotonic()
    launches = []
    for request in requests:
        record = claim(cluster, plan.model_copy(update={"request": request}), weights, None)
        launches.append(launch(cluster, record))
    launched, at_launch = time.monotonic() - began, cluster.api.requests
    looks = 0

    def tick(seconds: float) -> None:
        nonlocal looks
        looks += 1
        time.sleep(seconds)

    ended = follow(cluster, launches, lambda progress: None, sleep=tick)
    states = sorted({progress.end.state for progress in ended if progress.end})
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"runs                       {count}, all {', '.join(states)}")
    print(f"launches a second          {count / launched:.2f}")
    print(f"requests a launch          {(at_launch - asked) / count:.1f}")
    print(f"looks until all had ended  {looks + 1}, {time.monotonic() - began:.0f} s")
    print(f"requests a run in all      {(cluster.api.requests - asked) / count:.1f}")
    print(f"memory for them            {grown / 1024:.0f} MiB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
