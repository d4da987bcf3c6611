"""Real servers for the tests: a Hub, a Prefect server, and all of the embedded default with its worker."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import pytest
from xdist.remote import Producer

from blocks.clusters.local.cluster import LocalCluster
from deployments.stack import DEMO, PROJECT, Stack, make_assets
from tests.cluster.access import TestCluster, jobset_installed, kueue_installed, start
from tests.spread import ByFile, turn

# Readline, which pytest imports, exports the size of a terminal that is not there to the processes that tests run in.
for _size in ("COLUMNS", "LINES"):
    os.environ.pop(_size, None)

# Where the tests run in the background control-C may be ignored, and what they start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


PATIENCE_SECONDS = 300.0
"""How long to wait for what takes seconds: a guard, which costs nothing where all is well."""
CLUSTER_TEST_SECONDS = 900
"""What a test on Kubernetes may take: one node on two cores that other work takes as well."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("cluster") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(CLUSTER_TEST_SECONDS))
    items.sort(key=turn)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile | None:
    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None


@dataclass(frozen=True)
class Running:
    """The embedded default, running.

    Args:
        env: for processes that talk to its Prefect server.
        cluster: the local cluster that its flows use.
    """

    stack: Stack
    url: str
    env: dict[str, str]
    cluster: LocalCluster

    def prefect(self, *arguments: str, check: bool = True) -> str:
        """Run the `prefect` command and return what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "prefect", *arguments],
            cwd=PROJECT,
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, deployment: str, **parameters: object) -> str:
        """Start a deployment run as `prefect deployment run` does, without the seconds that takes to start; its id."""
        flow, name = deployment.split("/")
        found = self.api("GET", f"/deployments/name/{flow}/{name}")
        assert isinstance(found, dict)
        made = self.api("POST", f"/deployments/{found['id']}/create_flow_run", {"parameters": parameters})
        assert isinstance(made, dict)
        return str(made["id"])

    def run_from_shell(self, deployment: str, **parameters: object) -> str:
        """Start a deployment run as a person does at a shell; its id."""
        said = self.prefect("deployment", "run", deployment, "--params", json.dumps(parameters))
        return next(line.split()[-1] for line in said.splitlines() if "UUID" in line)

    def api(self, method: str, path: str, body: object = None) -> object:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        for left in range(200, -1, -1):
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                    text = answer.read()
                return json.loads(text) if text else None
            except urllib.error.HTTPError as error:  # SQLite was busy: nothing was done, and clients ask again
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE or not left:
                    raise
                time.sleep(0.5)
        return None

    def state(self, flow_run: str) -> dict[str, str]:
        found = self.api("GET", f"/flow_runs/{flow_run}")
        assert isinstance(found, dict)
        return found["state"] or {"type": "NONE", "name": "", "message": ""}

    def wait(self, flow_run: str, *types: str, seconds: float = PATIENCE_SECONDS) -> dict[str, str]:
        """Wait until a flow run is in a state of one of the types."""
        deadline = time.monotonic() + seconds
        while (state := self.state(flow_run))["type"] not in types:
            assert time.monotonic() < deadline, f"{flow_run} is {state} after {seconds} s"
            time.sleep(0.3)
        return state

    def completed(self, flow_run: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until a flow run has completed; its log is shown if it ends in another way."""
        state = self.wait(flow_run, "COMPLETED", "FAILED", "CRASHED", "CANCELLED", seconds=seconds)
        if state["type"] != "COMPLETED":
            time.sleep(3)  # the last lines are sent after the state
            pytest.fail(f"{flow_run} is {state}\n" + "\n".join(self.log(flow_run)))

    def logged(self, flow_run: str, text: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait for a line with the text; lines are sent up to seconds after what they tell of."""
        deadline = time.monotonic() + seconds
        while not (lines := [line for line in self.log(flow_run) if text in line]):
            assert time.monotonic() < deadline, f"no {text!r} in\n" + "\n".join(self.log(flow_run))
            time.sleep(0.3)
        return lines[0]

    def log(self, flow_run: str) -> list[str]:
        asked = {"logs": {"flow_run_id": {"any_": [flow_run]}}, "sort": "TIMESTAMP_ASC", "limit": 200}
        found = self.api("POST", "/logs/filter", asked)
        assert isinstance(found, list)
        return [row["message"] for row in found]


@pytest.fixture(scope="session")
def demo_assets() -> Path:
    """The demo's repositories and dataset."""
    make_assets()
    return DEMO


@pytest.fixture(scope="session")
def hub_url(demo_assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Hub that serves the demo's model."""
    folder = tmp_path_factory.mktemp("hub")
    port, log = folder / "port", folder / "log"
    argv = [sys.executable, "-m", "deployments.hub.server", "--root", demo_assets / "repos", "--port-file", port]
    with log.open("w") as out:
        process = subprocess.Popen(argv, cwd=PROJECT, stdout=out, stderr=out)
    while not port.exists():
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port.read_text()}"
    process.kill()
    process.wait()


@pytest.fixture(scope="session")
def kubernetes() -> TestCluster:
    """A real Kubernetes, for tests marked `cluster`."""
    return start()


@pytest.fixture(scope="module")
def jobset(kubernetes: TestCluster) -> Iterator[None]:
    """JobSet on that Kubernetes, for tests marked `alone`: all others are there without it."""
    with jobset_installed(kubernetes):
        yield


@pytest.fixture(scope="module")
def kueue(kubernetes: TestCluster) -> Iterator[None]:
    """Kueue on that Kubernetes, with its own controller, beside JobSet, for tests marked `alone`."""
    with kueue_installed(kubernetes):
        yield


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """All of the embedded default on free ports: server, Hub, worker, deployments."""
    before = dict(os.environ)
    stack = Stack(tmp_path_factory.mktemp("stack"), usual_ports=False)
    try:
        started = stack.up(lambda text: None)
        cluster = stack.settings().cluster()
        assert isinstance(cluster, LocalCluster)
        yield Running(stack, started.url, started.environment(), cluster)
    finally:
        stack.down(lambda text: None)
        for key in os.environ.keys() - before.keys():
            del os.environ[key]
        os.environ.update(before)


@pytest.fixture(scope="session")
def prefect_server(running: Running) -> dict[str, str]:
    """The environment of processes that talk to a real Prefect server."""
    return running.env
