"""A volume, a Hub that serves a small model over loopback, and programs run in processes of their own."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import pytest
from safetensors.numpy import save_file

from tasks.pod.layout import Layout
from tests.deployments.hub.faulty import FaultyHub

REPOSITORY = Path(__file__).resolve().parents[4]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "volume").mkdir()
    return Layout(tmp_path / "volume")


def write_model(folder: Path, seed: int = 0, shards: int = 3, size: int = 400_000) -> Path:
    """A sharded model in Hugging Face format; `size` in bytes a shard."""
    folder.mkdir(parents=True, exist_ok=True)
    random = numpy.random.default_rng(seed)
    weight_map = {}
    for shard in range(1, shards + 1):
        name = f"model-{shard:05}-of-{shards:05}.safetensors"
        tensors = {f"layer.{shard}.weight": random.standard_normal(size // 4, dtype=numpy.float32)}
        save_file(tensors, folder / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(tensors, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / "config.json").write_text(json.dumps({"architectures": ["TinyModel"], "model_type": "tiny"}))
    (folder / "README.md").write_text("# tiny\n")
    (folder / "tokenizer").mkdir(exist_ok=True)
    (folder / "tokenizer" / "vocab.json").write_text('{"a": 1}')
    return folder


@dataclass
class Programs:
    """Runs `tasks.pod` programs in processes of their own."""

    layout: Layout
    env: dict[str, str] = field(default_factory=dict)

    def start(self, name: str, arguments: dict[str, Any]) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "tasks.pod.program", name, json.dumps(arguments)],
            cwd=REPOSITORY,
            env=os.environ | {"SLIPWAY_VOLUME": str(self.layout.root)} | self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def answer(self, process: "subprocess.Popen[str]") -> dict[str, Any]:
        out, err = process.communicate()
        assert out, err
        answer: dict[str, Any] = json.loads(out.splitlines()[-1])
        return answer

    def run(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return self.answer(self.start(name, arguments))


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyHub]:
    """Serves `org/tiny`; its folder is `hub.repositories.root / "models/org/tiny"`."""
    root = tmp_path / "served"
    write_model(root / "models" / "org" / "tiny")
    server = FaultyHub(root)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def served(hub: FaultyHub) -> Path:
    """The folder of branch `main` of `org/tiny`."""
    return hub.repositories.root / "models" / "org" / "tiny"


@pytest.fixture
def programs(layout: Layout, hub: FaultyHub) -> Programs:
    return Programs(layout)


@pytest.fixture
def pinned(hub: FaultyHub) -> Callable[..., dict[str, Any]]:
    """Arguments for a stage job of `org/tiny`, its branch resolved the way the Hub does."""

    def resolved(revision: str | None = "main", commit_of: str = "main") -> dict[str, Any]:
        commit = hub.repositories.commit("models", "org/tiny", commit_of)
        assert commit
        return {"repo_type": "model", "repo": "org/tiny", "commit": commit.sha, "revision": revision}

    return resolved
