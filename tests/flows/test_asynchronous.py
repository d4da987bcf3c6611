"""The flows and tasks from asynchronous code, as the docs say: a thread each for what runs here, `arun_deployment` for
what a worker runs."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from blocks.clusters.local.cluster import LocalCluster
from deployments.stack import PROJECT
from tasks.runs.launch import read_run
from tests.conftest import Running

CODE = '''
import asyncio, json, sys
from pathlib import Path
from prefect import flow, runtime
from prefect.client.orchestration import get_client
from prefect.deployments import arun_deployment
from blocks.hub import HuggingFaceHub
from blocks.local_cluster import LocalCluster
from blocks.trainer import Trainer
from flows.finetune import finetune
from flows.fork import fork
from tasks.stages.source import DatasetRequest
from tasks.volumes import provision

root, endpoint, harbour = sys.argv[1:]
place = {"cluster": LocalCluster(root=root, poll_seconds=0.3), "hub": HuggingFaceHub(endpoint=endpoint), "volume": "v"}
asked = {
    "config": Path("deployments/demo/finetune.toml").read_text(),
    "dataset": DatasetRequest(name="harbour", source=harbour),
    "trainer": Trainer(kind="tiny"),
    **place,
}
beats = []

@flow
async def two():
    """Trains two runs side by side, and forks the better one."""
    await asyncio.to_thread(provision, place["cluster"].connect(), "v", 2**30)
    runs = [asyncio.to_thread(finetune, name=f"a{n}", set={"max_steps": 20, "seed": n}, **asked) for n in (1, 2)]
    first, second = await asyncio.gather(*runs)
    better = min(first, second, key=lambda result: result.loss)
    best = await asyncio.to_thread(fork, run=better.run, name="best", set={"max_steps": 30}, **place)
    return str(runtime.flow_run.id), [first.state, second.state, best.state]

async def beat():
    while True:
        await asyncio.sleep(0.1)
        beats.append(1)

async def main():
    beating = asyncio.create_task(beat())
    outer, states = await two()
    beating.cancel()
    async with get_client() as client:
        children = [run for run in await client.read_flow_runs() if run.parent_task_run_id]
    deployed = await arun_deployment("create-volume/local", parameters={"volume": "asked"}, as_subflow=False)
    print(json.dumps({
        "states": states, "beats": len(beats), "deployed": deployed.state.type.value,
        "children": sorted(run.name for run in children),
    }))

asyncio.run(main())
'''


def run(code: str, *arguments: str, env: dict[str, str]) -> list[str]:
    """The lines that a program prints which a person has in this folder."""
    command = [sys.executable, "-c", code, *arguments]
    env = {**os.environ, "PYTHONPATH": str(PROJECT), **env}
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.timeout(400)
def test_runs_side_by_side_and_a_deployment_are_awaited(running: Running, hub_url: str, tmp_path: Path) -> None:
    harbour = PROJECT / ".slipway" / "demo" / "harbour"

    said = json.loads(run(CODE, f"{tmp_path}/cluster", hub_url, str(harbour), env=running.env)[-1])

    assert said["states"] == ["completed"] * 3
    assert said["deployed"] == "COMPLETED"
    assert said["beats"] > 10, "the event loop stood still"
    assert {"finetune a1", "finetune a2", "fork best"} <= set(said["children"])
    cluster = LocalCluster(tmp_path / "cluster")
    source = read_run(cluster, "v", "best").plan.resolved.source
    assert source is not None and source.run in ("a1", "a2") and source.step == 20


@pytest.mark.timeout(400)
def test_the_code_on_the_page_runs(running: Running, hub_url: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (PROJECT / "docs" / "deployments.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    awaits = f"{blocks[1]}{blocks[2]}print(one.state, two.state, flow_run.state)\n"
    main = f"import asyncio\nasync def main():\n{textwrap.indent(awaits, '    ')}"
    settings = tmp_path / "slipway.toml"
    settings.write_text(f'[clusters.local]\nroot = "state"\npoll_seconds = 0.3\n[hubs.demo]\nendpoint = "{hub_url}"\n')
    env = {**running.env, "SLIPWAY_SETTINGS": str(settings)}

    first, last = run(f"{blocks[0]}\n{main}\nasyncio.run(main())", env=env)

    assert first.startswith("completed") and last.startswith("completed completed Completed")
