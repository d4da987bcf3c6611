"""A staged model and dataset of the demo, and the trainer's program run as the platform runs it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from deployments.demo.assets import write_dataset, write_model
from tasks.pod.trainers.tiny.adapter import Tiny
from tasks.pod.trainers.tiny.network import Sizes
from tasks.pod.trainers.toml_config import set_keys

SMALL = Sizes(context_size=8, embedding_size=16, hidden_size=64)


@dataclass(frozen=True)
class Bench:
    """Runs of the tiny trainer in a directory of their own."""

    place: Path
    model: Path
    small_model: Path
    dataset: Path

    def config(self, output: Path | str, **changes: Any) -> Path:
        """A rendered config; `changes` are dotted keys with `__` for the dot; None takes a key or table away."""
        config: dict[str, Any] = {
            "max_steps": 40,
            "output_dir": str(self.place / output),
            "model": {"name": str(self.small_model)},
            "data": {"name": str(self.dataset)},
            "optim": {"lr": 0.004},
            "ckpt": {"interval": 10},
        }
        keys = {key.replace("__", "."): value for key, value in changes.items()}
        config = set_keys(
            config, {key: str(value) if isinstance(value, Path) else value for key, value in keys.items()}
        )
        for name in [name for name, value in config.items() if value is None]:
            del config[name]
        path = self.place / f"{Path(output).name}.toml"
        path.write_text(tomli_w.dumps(config))
        return path

    def start(self, config: Path) -> subprocess.Popen[str]:
        command = [sys.executable, *Tiny().command({}, str(config), 0, 1)[1:]]
        environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def train(self, output: Path | str, **changes: Any) -> Path:
        """Train to the end and return the output directory."""
        process = self.start(self.config(output, **changes))
        _, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")
        return self.place / output

    def refused(self, output: Path | str, **changes: Any) -> str:
        """The one line of a run that was refused."""
        process = self.start(self.config(output, **changes))
        _, errors = process.communicate()
        assert process.returncode == 1, errors
        assert errors.startswith("error: ") and errors.count("\n") == 1, errors
        return errors.strip()

    @staticmethod
    def losses(output: Path) -> dict[int, str]:
        """The losses as they were written, by step; no step may be there twice."""
        lines = [json.loads(line, parse_float=str) for line in (output / "metrics.jsonl").read_text().splitlines()]
        losses = {int(line["step"]): line["loss"] for line in lines}
        assert len(losses) == len(lines)
        return losses


@pytest.fixture(scope="session")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("staged")
    write_model(place / "model")
    write_model(place / "small-model", SMALL)
    write_dataset(place / "dataset")
    return place


@pytest.fixture
def bench(tmp_path: Path, staged: Path) -> Bench:
    return Bench(tmp_path, staged / "model", staged / "small-model", staged / "dataset")
