"""Drives a sweep that is on record, in a process that tests kill.

`python -m tests.tasks.sweeps.driving ROOT VOLUME SWEEP`.
"""

import sys
from pathlib import Path

from blocks.clusters.local.cluster import LocalCluster
from tasks.sweeps.drive import Drive
from tasks.sweeps.records import read_sweep

if __name__ == "__main__":
    root, volume, sweep = sys.argv[1:]
    cluster = LocalCluster(Path(root), poll_seconds=0.2)
    Drive(cluster, read_sweep(cluster, volume, sweep)[0], lambda drive: None).to_its_end()
