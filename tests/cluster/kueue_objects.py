"""`python kueue_objects.py FOLDER AUTHORITY kinds|names|admission`: Kueue's objects for the test cluster's API server,
or the names of its kinds.

FOLDER is the module's `config/components`, AUTHORITY the file with the certificate of who signed what the controller
serves with. Its webhooks are called by URL, because it runs beside the cluster, and only those of the kinds that it is
configured for.
"""

import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

AT = "https://127.0.0.1:9445"
SERVED = ("job", "jobset", "clusterqueue", "cohort", "resourceflavor", "workload")
CONVERTED = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")


def kinds(folder: Path, authority: str) -> Iterator[dict[str, Any]]:
    for path in sorted((folder / "crd" / "bases").glob("*.yaml")):
        kind = yaml.load(path.read_text(), yaml.CSafeLoader)
        if kind["spec"]["names"]["plural"] in CONVERTED:
            client = {"url": f"{AT}/convert", "caBundle": authority}
            webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
            kind["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        yield kind


def admission(folder: Path, authority: str) -> Iterator[dict[str, Any]]:
    for found in yaml.safe_load_all((folder / "webhook" / "manifests.yaml").read_text()):
        found["metadata"]["name"] = "kueue"
        found["webhooks"] = [hook for hook in found["webhooks"] if hook["name"][1:].partition(".")[0] in SERVED]
        for hook in found["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"{AT}{path}", "caBundle": authority}
        yield found


if __name__ == "__main__":
    _, folder, authority, what = sys.argv
    encoded = base64.b64encode(Path(authority).read_bytes()).decode()
    if what == "names":
        print(*(kind["spec"]["names"]["plural"] for kind in kinds(Path(folder), encoded)))
    else:
        made = {"kinds": kinds, "admission": admission}[what](Path(folder), encoded)
        yaml.dump_all(made, sys.stdout, yaml.CSafeDumper)
