"""`slipway train|fork|stage`, end to end, in processes of their own against a real Prefect server."""

import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from blocks.clusters.local.cluster import LocalCluster
from blocks.clusters.local.place import Place
from tasks.runs.job import RUN_LABEL
from tests.flows.cli.conftest import Answer, Slipway, furnish

SLOW = ("train", "finetune.toml", "--set", "pace.step_seconds=1", "--set", "max_steps=2000")  # until it is ended


@dataclass(frozen=True)
class First:
    """What the first commands on an empty cluster answered: a model was staged, a run `first` trained."""

    yard: Slipway
    staged: Answer
    trained: Answer


@pytest.fixture(scope="module")
def first(
    tmp_path_factory: pytest.TempPathFactory, hub_url: str, demo_assets: Path, prefect_server: dict[str, str]
) -> First:
    yard = furnish(tmp_path_factory.mktemp("yard"), hub_url)
    staged = yard.process(
        *("stage", "model", "slipway/tiny-lm", "--volume", "bench", "--volume-size", "2Gi", "-o", "json"),
        env=prefect_server,
    )
    source = f"harbour={demo_assets / 'harbour'}"
    trained = yard.process("train", "finetune.toml", "--name", "first", "--dataset", source, env=prefect_server)
    return First(yard, staged, trained)


@pytest.fixture
def yard(first: First) -> Slipway:
    """A cluster with the run `first` and what it was trained on, and a Prefect server."""
    assert first.trained.code == 0, first.trained
    return first.yard


def test_stage_and_train(first: First) -> None:
    yard, staged, trained = first.yard, first.staged, first.trained
    assert staged.code == 0, staged
    assert staged.json["staged"] is True
    assert len(staged.json["commit"]) == 40

    assert trained.code == 0, trained
    assert all(word in trained.out for word in ("first", "completed", "runs/first/checkpoints/step_6"))
    assert "checkpoint" in trained.err
    assert "dataset harbour has 2 jsonl files with" in trained.err
    for chatter in ("View at", "Traceback", "Beginning flow", "Finished in state", "error"):
        assert chatter not in trained.err

    assert yard("volumes", "list", "-o", "json").json[0]["size"] == 2 * 2**30


def test_a_run_that_left_no_checkpoint_says_so(yard: Slipway, prefect_server: dict[str, str]) -> None:
    text = (yard.folder / "finetune.toml").read_text()
    (yard.folder / "bare.toml").write_text(text[: text.index("[ckpt]")])
    trained = yard.process("train", "bare.toml", "--name", "bare", env=prefect_server)
    assert trained.code == 0, trained
    assert "run bare left no complete checkpoint: it can be neither forked nor exported" in trained.err


def test_ctrl_c_leaves_the_run_going_and_says_how_to_stop_it(yard: Slipway, prefect_server: dict[str, str]) -> None:
    process = yard.start(*SLOW, "--name", "long", env=prefect_server)
    _wait(lambda: _steps(yard, "long") > 0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, ""), err
    assert "Run long goes on" in err
    assert "slipway runs stop long" in err
    assert "Traceback" not in err

    adopted = yard.process(*SLOW, "--name", "long", "--no-wait", "-o", "json", env=prefect_server)
    assert (adopted.code, adopted.json["attempt"]) == (0, 1), adopted
    assert yard("runs", "stop", "long").code == 0
    assert {row["run"]: row["state"] for row in yard("runs", "list", "-o", "json").json}["long"] == "stopped"
    assert "stopped by hand" in yard("runs", "show", "long").out


def test_a_killed_trainer_is_one_message_with_its_last_lines(yard: Slipway, prefect_server: dict[str, str]) -> None:
    process = yard.start(*SLOW, "--name", "doomed", env=prefect_server)
    _wait(lambda: _steps(yard, "doomed") > 2)
    (job,) = LocalCluster(yard.folder / "state").jobs.find({RUN_LABEL: "doomed"})
    program = Place(yard.folder / "state", "me", job.name).program()
    assert program
    os.kill(program.pid, signal.SIGKILL)
    out, err = process.communicate()
    assert (process.returncode, out) == (1, "")
    assert err.count("SIGKILL") == 1
    assert re.search(r"Its last lines:\n(.*\n)*  checkpoint of step \d+ saved\n", err), err
    assert "Traceback" not in err
    assert "killed by SIGKILL" in yard("runs", "show", "doomed").out


def test_register_saves_the_settings(tmp_path: Path, prefect_server: dict[str, str]) -> None:
    office = Slipway(tmp_path)  # names of its own: the deployments of this server use the usual ones
    office.write("slipway.toml", '[clusters.office]\nroot = "x"\n[hubs.office]\n[trainers.office]\nkind = "tiny"\n')
    saved = office.process("register", "-o", "json", env=prefect_server)
    assert saved.json == ["local-cluster/office", "hugging-face-hub/office", "trainer/office"]


def test_without_any_server_a_fork_starts_one_and_stops_it(yard: Slipway, tmp_path: Path) -> None:
    answer = yard.process("fork", "first", "--max-steps", "8", "--name", "second", env={"PREFECT_HOME": str(tmp_path)})
    assert answer.code == 0, answer
    assert "waiting for a Prefect server" in answer.err
    assert all(word in answer.out for word in ("second", "completed", "runs/second/checkpoints/step_8"))
    assert {row["run"]: row["parent"] for row in yard("runs", "list", "-o", "json").json}["second"] == "first"
    assert "API" not in answer.err
    assert not (yard.folder / ".slipway" / "prefect-cli" / "server.json").exists()


def _steps(slipway: Slipway, run: str) -> int:
    metrics = slipway.folder / "state" / "volumes" / "me" / "bench" / "runs" / run / "metrics.jsonl"
    return len(metrics.read_text().splitlines()) if metrics.exists() else 0


def _wait(look: Callable[[], bool]) -> None:
    until = time.monotonic() + 200
    while not look():
        assert time.monotonic() < until
        time.sleep(0.1)
