"""The deployments of prefect.yaml for a Kubernetes work pool, where each flow run is a pod.

python -m deployments.kubernetes.deployments --image registry.example/slipway-flows:0.1.0 > kubernetes.yaml
prefect deploy --all --prefect-file kubernetes.yaml
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from deployments.demo.assets import DATASET

FILE = Path(__file__).resolve().parents[2] / "prefect.yaml"
CODE = "/opt/slipway"  # as in the Dockerfile
ACCOUNT = "slipway-flows"


def for_kubernetes(content: dict[str, Any], image: str, *, namespace: str, api: str, cluster: str, hub: str) -> Any:
    """The same deployments, by the same names but for their last part.

    Args:
        content: of prefect.yaml.
        image: of the flows.
        namespace: where their pods run.
        api: the Prefect server's, as pods reach it.
        cluster, hub: names of blocks.
    """
    pool = {
        "name": "kubernetes",
        "job_variables": {
            "image": image,
            "namespace": namespace,
            "service_account_name": ACCOUNT,
            "env": {"PREFECT_API_URL": api},
            "finished_job_ttl": 86400,
        },
    }
    blocks = {"cluster": f"kubernetes-cluster/{cluster}", "hub": f"hugging-face-hub/{hub}"}
    deployments = []
    for deployment in content["deployments"]:
        parameters = dict(deployment["parameters"])
        for name, slug in blocks.items():
            if name in parameters:
                parameters[name] = {"$ref": {"block_document_slug": slug}}
        if dataset := parameters.get("dataset"):
            parameters["dataset"] = {**dataset, "source": f"hf://datasets/slipway/{DATASET}"}
        deployments.append({**deployment, "name": "kubernetes", "work_pool": pool, "parameters": parameters})
    pull = [{"prefect.deployments.steps.set_working_directory": {"directory": CODE}}]
    return {"name": content["name"], "pull": pull, "deployments": deployments}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m deployments.kubernetes.deployments", description=__doc__)
    parser.add_argument("--image", required=True, help="of the flows")
    parser.add_argument("--namespace", default="slipway", help="where their pods run")
    parser.add_argument("--api", default="http://prefect:4200/api", help="the Prefect server's, as pods reach it")
    parser.add_argument("--cluster", default="team", help="name of the cluster's block")
    parser.add_argument("--hub", default="public", help="name of the hub's block")
    asked = parser.parse_args(argv)
    content = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    made = for_kubernetes(
        content, asked.image, namespace=asked.namespace, api=asked.api, cluster=asked.cluster, hub=asked.hub
    )
    yaml.safe_dump(made, sys.stdout, sort_keys=False, allow_unicode=True)


if __name__ == "__main__":
    main()
