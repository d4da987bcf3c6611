"""Runs the finetune flow in this process, for tests that kill it.

`python -m tests.flows.asking ROOT HUB CONFIG JSON`.
"""

import json
import sys
from pathlib import Path

from blocks.hub import HuggingFaceHub
from blocks.local_cluster import LocalCluster
from blocks.trainer import Trainer
from deployments.stack import DEMO
from flows.finetune import finetune
from tasks.stages.source import DatasetRequest

if __name__ == "__main__":
    root, endpoint, config, parameters = sys.argv[1:]
    finetune(
        cluster=LocalCluster(root=root, poll_seconds=0.3),
        hub=HuggingFaceHub(endpoint=endpoint),
        trainer=Trainer(kind="tiny"),
        config=Path(config).read_text(),
        dataset=DatasetRequest(name="harbour", source=str(DEMO / "harbour")),
        **json.loads(parameters),
    )
