"""The flows from Python and from asynchronous code, as the docs say: a thread each for what runs here,
`arun_deployment` for what a worker runs."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from deployments.stack import PROJECT
from tests.conftest import Running

MAIN = '''
import asyncio, json
from prefect import flow
from prefect.client.orchestration import get_client

beats = []

async def beat():
    while True:
        await asyncio.sleep(0.1)
        beats.append(1)

@flow
async def main():
    """Does what the page does, under a flow of its own."""
{awaits}
    return one.state, two.state, str(flow_run.state)

async def watched():
    beating = asyncio.create_task(beat())
    states = await main()
    beating.cancel()
    async with get_client() as client:
        children = [run.name for run in await client.read_flow_runs() if run.parent_task_run_id]
    print(json.dumps({{"states": states, "beats": len(beats), "children": sorted(children)}}))

asyncio.run(watched())
'''


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_code_on_the_page_runs(running: Running, hub_url: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (PROJECT / "docs" / "deployments.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    code = blocks[0] + MAIN.format(awaits=textwrap.indent("".join(blocks[1:]), "    "))
    settings = tmp_path / "slipway.toml"
    settings.write_text(f'[clusters.local]\nroot = "state"\npoll_seconds = 0.3\n[hubs.demo]\nendpoint = "{hub_url}"\n')
    env = {**os.environ, "PYTHONPATH": str(PROJECT), **running.env, "SLIPWAY_SETTINGS": str(settings)}

    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, env=env, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    said = json.loads(last)
    assert first.startswith("completed")
    assert said["states"][:2] == ["completed"] * 2 and said["states"][2].startswith("Completed")
    assert said["beats"] > 10, "the event loop stood still"
    assert {"finetune one", "finetune two"} <= set(said["children"])
