"""The example notebook runs from its first cell to its last, as in Jupyter: in a process with a running event loop."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from blocks.clusters.local.cluster import LocalCluster
from deployments.stack import PROJECT
from tasks.runs.launch import read_run
from tasks.sweeps.records import read_sweep

NOTEBOOK = PROJECT / "examples" / "slipway.ipynb"
RUNNER = """
import asyncio, json, sys
import matplotlib
matplotlib.use("agg")

async def jupyter():
    space = {"__name__": "__main__"}
    for cell in json.load(open(sys.argv[1]))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), space)

asyncio.run(jupyter())
"""


@pytest.mark.long
def test_the_notebook_stages_trains_forks_plots_and_searches(
    prefect_server: dict[str, str], hub_url: str, demo_assets: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    (folder / ".slipway").mkdir(parents=True)
    (folder / ".slipway" / "demo").symlink_to(demo_assets)
    (folder / "slipway.toml").write_text(
        f'[clusters.local]\nroot = "state"\npoll_seconds = 0.3\n[hubs.demo]\nendpoint = "{hub_url}"\n'
    )
    env = {**os.environ, **prefect_server, "PYTHONPATH": str(PROJECT)}

    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(NOTEBOOK)], cwd=folder, env=env, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    cluster = LocalCluster(folder / "state")
    source = read_run(cluster, "notebook", "second").plan.resolved.source
    assert source is not None and (source.run, source.step) == ("first", 30)
    _, state = read_sweep(cluster, "notebook", "search")
    assert state.over is not None and len(done.stdout.splitlines()) == len(state.nodes) >= 6


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)
