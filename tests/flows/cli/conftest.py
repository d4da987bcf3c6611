"""The command line in a folder of its own: a slipway.toml, a local cluster, a Hub over loopback."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from blocks.clusters.local.files import is_locked
from blocks.clusters.port import Cluster
from blocks.settings import load_settings
from flows.cli.app import main
from tasks.plans.check import make_plan
from tasks.runs.ask import ask_fork, ask_run
from tasks.runs.claim import claim
from tasks.runs.follow import follow
from tasks.runs.launch import hold, launch
from tasks.runs.request import RunRequest
from tasks.stages.source import DatasetRequest
from tasks.stages.staged import stage_dataset, stage_snapshot
from tasks.stages.volume import ensure_volume

REPOSITORY = Path(__file__).resolve().parents[3]
CONFIG = """\
volume = "bench"
max_steps = 6

[model]
name = "slipway/tiny-lm"

[data]
name = "datasets/harbour"
batch_size = 2
seq_len = 16

[ckpt]
interval = 2
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def refused(self, code: int, *words: str) -> None:
        """It ended with the code and one clear line that has these words."""
        assert self.code == code, self
        assert self.out == ""
        errors = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, self.err
        assert "Traceback" not in self.err
        for word in words:
            assert word in errors[0], errors[0]


@dataclass(frozen=True)
class Slipway:
    """The command line, started in a folder with a slipway.toml."""

    folder: Path

    def __call__(self, *arguments: str | Path, stdin: str = "") -> Answer:
        """Run it in this process."""
        out, err, code = io.StringIO(), io.StringIO(), 0
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            patch.object(sys, "stdin", io.StringIO(stdin)),
        ):
            try:
                main([str(argument) for argument in arguments])
            except SystemExit as ended:
                code = int(ended.code or 0)
        return Answer(code, out.getvalue(), err.getvalue())

    def start(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
        """Run it in a process of its own, as people do."""
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT_", "COLUMNS"))}
        return subprocess.Popen(
            [sys.executable, "-m", "flows.cli.app", *map(str, arguments)],
            cwd=self.folder,
            env={**plain, "PYTHONPATH": str(REPOSITORY), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def process(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Answer:
        process = self.start(*arguments, env=env)
        out, err = process.communicate()
        return Answer(process.returncode, out, err)

    def copy(self, folder: Path) -> "Slipway":
        """The same folder again, for tests that add or take away."""
        shutil.copytree(self.folder, folder, copy_function=os.link)
        return Slipway(folder)

    @property
    def cluster(self) -> Cluster:
        return load_settings(self.folder / "slipway.toml").cluster()

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name


def furnish(folder: Path, hub: str = "http://127.0.0.1:9") -> Slipway:
    """Write the settings."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "slipway.toml").write_text(
        f'[clusters.local]\nroot = "state"\npoll_seconds = 0.1\n\n[hubs.public]\nendpoint = "{hub}"\n'
    )
    (folder / "finetune.toml").write_text(CONFIG)
    return Slipway(folder)


@pytest.fixture
def slipway(tmp_path: Path) -> Slipway:
    """With settings and nothing else; its Hub does not answer."""
    return furnish(tmp_path / "work")


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory, hub_url: str, demo_assets: Path) -> Slipway:
    """With a volume `bench` that has the demo's model and dataset, a run `base` of 6 steps and its fork `more` of 8."""
    bench = furnish(tmp_path_factory.mktemp("bench"), hub_url)
    place, settings = bench.cluster, load_settings(bench.folder / "slipway.toml")
    ensure_volume(place, "bench", 2**30)
    stage_dataset(
        place, settings.hub(), "bench", DatasetRequest(name="harbour", source=str(demo_assets / "harbour")), _nothing
    )
    _train(bench, ask_run("base", CONFIG, settings.trainer()))
    _train(bench, ask_fork(place, "bench", "base", "more", step=4, changes={"max_steps": 8}))
    _wait_for_supervisors(bench)
    return bench


@pytest.fixture
def bench(furnished: Slipway) -> Iterator[Slipway]:
    """`furnished`, to be read: all tests share it, so a test after which its volumes hold other files fails."""
    before = _on_volumes(furnished)
    yield furnished
    assert _on_volumes(furnished) == before, "a test that adds or takes away works on `copied`"


@pytest.fixture
def copied(furnished: Slipway, tmp_path: Path) -> Slipway:
    """`furnished` again, for a test that adds or takes away."""
    return furnished.copy(tmp_path / "copied")


def _wait_for_supervisors(bench: Slipway) -> None:
    """They still remove what ended jobs have in scratch; whoever copies the folder must not meet them."""
    locks = list((bench.folder / "state/jobs").glob("*/*/supervisor.lock"))
    assert locks
    while any(is_locked(lock) for lock in locks):
        time.sleep(0.05)


def _on_volumes(bench: Slipway) -> set[Path]:
    return set((bench.folder / "state/volumes").rglob("*"))


def _train(bench: Slipway, request: RunRequest) -> None:
    """What the flows do, without Prefect."""
    place, hub = bench.cluster, load_settings(bench.folder / "slipway.toml").hub()
    plan = make_plan(place, hub, request)
    assert plan.resolved and not plan.blocked, plan
    if plan.snapshot:
        stage_snapshot(place, hub, request.volume, plan.snapshot, _nothing)
    record = claim(place, plan, plan.resolved.weights, plan.resolved.dataset)
    hold(place, record)
    (progress,) = follow(place, [launch(place, record)], lambda progress: None)
    assert progress.end and progress.end.state == "completed", progress.end


def _nothing(note: dict[str, Any]) -> None:
    pass
