"""A Hub with the demo's model and dataset, for a cluster that has no other one to try Slipway with.

python -m deployments.demo.hub [--host 0.0.0.0] [--port 4280]
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deployments.demo.assets import DATASET, REPO, write_dataset, write_model
from deployments.hub.server import HubServer


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m deployments.demo.hub", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at")
    parser.add_argument("--port", type=int, default=4280)
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="slipway-hub-") as folder:
        write_model(Path(folder, "models", REPO))
        write_dataset(Path(folder, "datasets", "slipway", DATASET))
        server = HubServer(Path(folder), asked.port, host=asked.host)
        print(f"serving {REPO} and slipway/{DATASET} at port {asked.port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
