"""Drives a sweep that is on record, in a process that tests kill.

`python -m tests.tasks.sweeps.driving CLUSTER VOLUME SWEEP`: a file with a pickled cluster.
"""

import pickle
import sys
from pathlib import Path

from tasks.sweeps.drive import Drive
from tasks.sweeps.records import read_sweep

if __name__ == "__main__":
    pickled, volume, sweep = sys.argv[1:]
    cluster = pickle.loads(Path(pickled).read_bytes())
    Drive(cluster, read_sweep(cluster, volume, sweep)[0], lambda drive: None).to_its_end()
