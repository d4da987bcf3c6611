"""What following many runs on Kubernetes costs: requests to the API server, launches a second, memory.

`python -m benchmarks.kubernetes [JOBS]`, 200 by default, on the test cluster (see docs/kubernetes.md). Jobs end at
once; what is measured is the cluster port, from the first submit to the last end, in one process.
"""

import resource
import sys
import time

from blocks.clusters.job import Job
from tests.cluster.access import owner_of_its_own, start


def main(count: int) -> None:
    kubernetes = start()
    with owner_of_its_own(kubernetes) as owner:
        cluster = kubernetes.connect(owner)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.monotonic()
        names = [f"run-{n}" for n in range(count)]
        for name in names:
            cluster.jobs.submit(Job(name=name, request_hash=name, command=("true",), cpus=0.01))
        launched, submits = time.monotonic() - began, cluster.api.requests
        looks = 0
        while any(status.live for status in cluster.jobs.status(names).values()):
            looks += 1
            time.sleep(cluster.poll_seconds)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(f"jobs                       {count}")
        print(f"launches a second          {count / launched:.1f}")
        print(f"requests a launch          {submits / count:.2f}")
        print(f"looks until all had ended  {looks}, {time.monotonic() - began:.0f} s")
        print(f"requests a look            {(cluster.api.requests - submits) / (looks + 1):.2f}")
        print(f"requests a run in all      {cluster.api.requests / count:.2f}")
        print(f"memory for them            {grown / 1024:.0f} MiB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
