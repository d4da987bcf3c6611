"""Runs the finetune flow on Kubernetes in this process, for tests that kill it.

`python -m tests.kubernetes.asking BLOCK HUB ASSETS PARAMETERS`: JSON, a URL, a folder, JSON.
"""

import json
import sys
from pathlib import Path

from blocks.hub import HuggingFaceHub
from blocks.kubernetes_cluster import KubernetesCluster
from blocks.trainer import Trainer
from flows.finetune import finetune
from tasks.stages.source import DatasetRequest
from tests.tasks.conftest import CONFIG

if __name__ == "__main__":
    block, endpoint, assets, parameters = sys.argv[1:]
    finetune(
        cluster=KubernetesCluster(**json.loads(block)),
        hub=HuggingFaceHub(endpoint=endpoint),
        trainer=Trainer(kind="tiny"),
        config=CONFIG,
        dataset=DatasetRequest(name="harbour", source=str(Path(assets) / "harbour")),
        **json.loads(parameters),
    )
