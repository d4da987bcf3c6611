"""Staging a model from a Hub on this machine, against `hf download` of the same repository; prints a Markdown table.

`python -m benchmarks.staging [MEGABYTES] [ROUNDS]`. Plain HTTP over loopback; `hf download` checks sizes, staging
checks every byte by sha256.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import Sample, compare, interleaved, machine, measure
from deployments import server
from tasks.pod.area import remove_tree

SHARDS = 4


def main(megabytes: int = 512, rounds: int = 3) -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        model = work / "repos" / "models" / "bench" / "model"
        model.mkdir(parents=True)
        for number in range(SHARDS):
            with (model / f"model-{number}.safetensors").open("wb") as out:
                for _ in range(megabytes // SHARDS):
                    out.write(os.urandom(2**20))
        (model / "config.json").write_text("{}")
        port = server.free_port(0)
        serve = [sys.executable, "-m", "deployments.hub.server", "--root", str(work / "repos"), "--port", str(port)]
        process = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _measure(work, f"http://127.0.0.1:{port}", rounds, megabytes)
        finally:
            process.kill()
            process.wait()
            for leftover in ("staged", "downloaded"):
                if (work / leftover).exists():
                    remove_tree(work / leftover)


def _measure(work: Path, url: str, rounds: int, megabytes: int) -> None:
    commit = _ask(url)["sha"]
    asked = {"repo_type": "model", "repo": "bench/model", "commit": commit, "revision": "main"}
    stage = [sys.executable, "-m", "tasks.pod.program", "snapshots.stage", json.dumps(asked)]
    state = [sys.executable, "-m", "tasks.pod.program", "snapshots.state", json.dumps(asked)]
    download = [str(Path(sys.executable).with_name("hf")), "download", "bench/model"]
    env = {
        "HF_ENDPOINT": url,
        "HF_HOME": str(work / "home"),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "SLIPWAY_VOLUME": str(work / "staged"),
        "HF_HUB_CACHE": str(work / "downloaded"),
        "PYTHONPATH": str(Path.cwd()),
    }

    def take(words: list[str], *, fresh: str = "") -> Callable[[int], Sample]:
        def once(number: int) -> Sample:
            if fresh and (work / fresh).exists():
                remove_tree(work / fresh)
            (work / "staged").mkdir(exist_ok=True)
            return measure(words, env=env)

        return once

    first = {
        "hf download": take(download, fresh="downloaded"),
        "slipway, verified": take(stage, fresh="staged"),
    }
    again = {
        "hf download, again": take(download),
        "slipway, again": take(stage),
        "slipway, asked whether": take(state),
    }
    title = f"Staging {megabytes} MiB from a Hub over loopback HTTP"
    compare(title, interleaved(first, rounds), "hf download", megabytes * 2**20)
    compare(f"{title}, once it is there", interleaved(again, rounds), "hf download, again")


def _ask(url: str) -> dict[str, str]:
    for _ in range(100):
        try:
            with urllib.request.urlopen(f"{url}/api/models/bench/model/revision/main", timeout=30) as answer:
                found: dict[str, str] = json.load(answer)
                return found
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the Hub at {url} does not answer")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
