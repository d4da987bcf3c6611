"""Slipway installed in a cluster as docs/operate.md says: by kustomize and by the commands of that page."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.access import TestCluster, kubectl_of
from tests.conftest import PROJECT

MANIFESTS = PROJECT / "deployments" / "kubernetes"
IMAGES = ("slipway-flows", "slipway")
_OVER = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


@dataclass(frozen=True)
class Installed:
    """One installation.

    Args:
        home: the namespace of the Prefect server, the worker and flow runs.
        owner: a team's.
        folder: of the operator: overlays, slipway.toml, the project's code.
        flows_image: of server, worker and flows.
        port: at which the Prefect server is reached from here.
    """

    kubernetes: TestCluster
    home: str
    owner: str
    folder: Path
    flows_image: str
    port: int

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    def kubectl(self, *words: str, fails: bool = False) -> str:
        done = subprocess.run(
            [*kubectl_of(self.kubernetes), *words], capture_output=True, text=True, check=False, timeout=300
        )
        assert fails or done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, part: str, *patches: dict[str, Any], namespace: str) -> None:
        """`kubectl apply -k` of an overlay that has our names and images."""
        overlay = self.folder / part
        overlay.mkdir()
        shipped = os.path.relpath(MANIFESTS / part, overlay)
        name, _, tag = self.flows_image.rpartition(":")
        content = {
            "namespace": namespace,
            "resources": [shipped],
            "images": [{"name": "registry.example/slipway-flows", "newName": name, "newTag": tag}],
            "patches": list(patches),
        }
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump(content))
        self.kubectl("apply", "-k", str(overlay))

    def rolled_out(self, deployment: str, seconds: int = 240) -> None:
        self.kubectl("-n", self.home, "rollout", "status", f"deployment/{deployment}", f"--timeout={seconds}s")

    def run(self, *words: str) -> str:
        """A command of the operator's, in their folder."""
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=self.folder,
            env={**os.environ, "PREFECT_API_URL": self.api, "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def answer(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.api + path, data=data, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def page(self) -> str:
        """Of the Prefect UI."""
        with urllib.request.urlopen(self.api.removesuffix("/api") + "/ui-settings", timeout=30) as answer:
            assert json.loads(answer.read())["api_url"] == "/api"
        asked = urllib.request.Request(self.api.removesuffix("/api") + "/", headers={"Accept": "text/html"})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return str(answer.read().decode())

    def await_server(self) -> None:
        until = time.monotonic() + 120
        while True:
            try:
                return self.answer("/health") and None
            except (urllib.error.URLError, OSError):
                assert time.monotonic() < until
                time.sleep(0.5)

    def settings(self, **cluster: Any) -> None:
        """The operator's slipway.toml, and the project's code beside it."""
        for name in ("blocks", "deployments", "flows", "tasks", "tests"):
            (self.folder / name).symlink_to(PROJECT / name)
        lines = [f"{key} = {json.dumps(value)}" for key, value in cluster.items()]
        (self.folder / "slipway.toml").write_text(
            'default_cluster = "team"\n\n[clusters.team]\nkind = "kubernetes"\n'
            f'owner = "{self.owner}"\nimage = "{self.kubernetes.image}"\n' + "\n".join(lines) + "\n\n"
            f'[hubs.public]\nendpoint = "http://demo-hub.{self.home}:4280"\n'
            'token = { name = "hub", key = "token" }\n\n[trainers.tiny]\nkind = "tiny"\nresources = { cpus = 0.3 }\n'
        )

    def start(self, deployment: str, **parameters: object) -> str:
        """Start a deployment run and return its id."""
        said = self.run("prefect", "deployment", "run", deployment, "--params", json.dumps(parameters))
        return next(line.split()[-1] for line in said.splitlines() if "UUID" in line)

    def state_of(self, flow_run: str, seconds: float) -> str:
        """The type of a flow run's state: the one that it ends in, if it does in that time."""
        until = time.monotonic() + seconds
        while True:
            state: str = self.answer(f"/flow_runs/{flow_run}")["state"]["type"]
            if state in _OVER or time.monotonic() > until:
                return state
            time.sleep(1)

    def pods_of(self, flow_run: str) -> list[str]:
        """The names of a flow run's pods, oldest first."""
        asked = ["get", "pods", "-l", f"prefect.io/flow-run-id={flow_run}", "--sort-by=.metadata.creationTimestamp"]
        return self.kubectl("-n", self.home, *asked, "-o", "name").split()

    def ended(self, flow_run: str, seconds: float) -> str:
        """Wait for a flow run's end, and say how it was, with its log where it was bad."""
        until = time.monotonic() + seconds
        while True:
            state = self.answer(f"/flow_runs/{flow_run}")["state"]
            if state["type"] in _OVER or time.monotonic() > until:
                break
            time.sleep(1)
        if state["type"] == "COMPLETED":
            return "COMPLETED"
        asked = {"logs": {"flow_run_id": {"any_": [flow_run]}}, "sort": "TIMESTAMP_ASC", "limit": 200}
        lines = [row["message"] for row in self.answer("/logs/filter", asked)]
        pods = self.kubectl("-n", self.home, "get", "pods,events", fails=True)
        return "\n".join([str(state), *lines, pods])
