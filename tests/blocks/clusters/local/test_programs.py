"""Programs that misbehave, behind the real door (`tasks.pod.program`)."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from blocks.clusters.errors import ProgramError, SlipwayError
from blocks.clusters.job import SecretRef
from blocks.clusters.local.cluster import LocalCluster
from tests.blocks.clusters.bench import PATIENCE_SECONDS

T = TypeVar("T")

DOOR = """
import sys
sys.path.insert(0, {repository!r})
for name in ("tasks.pod", "tasks"):
    del sys.modules[name]
import tasks.pod.program as program
names = ("echo", "hang", "die", "chatter", "copy", "deaf", "no_json", "rest")
program.PROGRAMS.update({{n: f"trials:{{n}}" for n in names}})
sys.exit(program.main(sys.argv))
"""
TRIALS = """
import os, sys, time

def echo(layout, arguments):
    print("not the answer")
    names = ("TOKEN", "HF_HOME", "PREFECT_API_KEY")
    return {"arguments": arguments, "volume": str(layout.root), **{n: os.environ.get(n) for n in names}}

def hang(layout, arguments):
    print("hangs", file=sys.stderr, flush=True)
    time.sleep(600)

def die(layout, arguments):
    print("last words", file=sys.stderr, flush=True)
    os.kill(os.getpid(), 9)

def chatter(layout, arguments):
    for _ in range(arguments["lines"]):
        print("x" * 1000, file=sys.stderr)
        sys.stdout.buffer.write(b"y" * 1000)
    return {"said": arguments["lines"]}

def copy(layout, arguments):
    total = 0
    while piece := sys.stdin.buffer.read1(65536):
        total += len(piece)
        sys.stderr.write("x" * len(piece) + "\\n")
        sys.stdout.buffer.write(piece)
    return {"bytes": total}

def deaf(layout, arguments):
    from tasks.pod.errors import BadInputError
    raise BadInputError("I will not listen.", "Say something else.")

def rest(layout, arguments):
    open(arguments["resting"], "w").close()
    time.sleep(600)

def no_json(layout, arguments):
    sys.stdout.write("nonsense"); sys.stdout.flush(); os._exit(0)
"""


@pytest.fixture
def trials(tmp_path: Path) -> LocalCluster:
    project = tmp_path / "project"
    (project / "tasks/pod").mkdir(parents=True)
    (project / "tasks/pod/program.py").write_text(DOOR.format(repository=str(Path(__file__).parents[4])))
    (project / "trials.py").write_text(TRIALS)
    cluster = LocalCluster(tmp_path / "cluster", project=project)
    cluster.volumes.create("shelf", 2**30)
    return cluster


def test_a_program_gets_its_arguments_its_volume_and_its_secrets_only(
    trials: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_TOKEN", "abc")
    monkeypatch.setenv("PREFECT_API_KEY", "tell nobody")
    secrets = {"TOKEN": SecretRef(name="hub", key="HUB_TOKEN")}
    answer = trials.call("shelf", "echo", {"line": "a\nb"}, env={"HF_HOME": "/volume/hf"}, secrets=secrets)
    volume = trials.volumes.path("shelf")
    assert answer == {
        "arguments": {"line": "a\nb"},
        "volume": str(volume),
        "TOKEN": "abc",
        "HF_HOME": f"{volume}/hf",
        "PREFECT_API_KEY": None,
    }


def test_a_call_that_takes_too_long_is_ended(trials: LocalCluster) -> None:
    with pytest.raises(ProgramError, match="longer than"):
        trials.call("shelf", "hang", {}, timeout_seconds=0.5)


def test_a_killed_program_is_an_error_with_its_last_lines(trials: LocalCluster) -> None:
    with pytest.raises(ProgramError, match=r"SIGKILL.*\n.*last words"):
        trials.call("shelf", "die", {})
    with pytest.raises(ProgramError, match=r"SIGKILL.*\n.*last words"), trials.stream("shelf", "die", {}) as stream:
        stream.result()


def test_an_answer_that_is_no_json_is_an_error(trials: LocalCluster) -> None:
    with pytest.raises(ProgramError, match="without an answer"):
        trials.call("shelf", "no_json", {})


def test_a_call_reads_much_on_both_pipes(trials: LocalCluster) -> None:
    with trials.stream("shelf", "chatter", {"lines": 2000}) as stream:
        assert stream.result() == {"said": 2000}


def test_a_stream_copies_bytes_both_ways_while_standard_error_is_busy(trials: LocalCluster) -> None:
    piece = bytes(range(256)) * 200
    with trials.stream("shelf", "copy", {}) as stream:
        for _ in range(20):
            stream.stdin.write(piece)
            stream.stdin.flush()
            assert stream.stdout.read(len(piece)) == piece
        assert stream.result() == {"bytes": 20 * len(piece)}


def test_writing_to_a_program_that_refused_raises_its_refusal(trials: LocalCluster) -> None:
    with (
        pytest.raises(ProgramError, match="I will not listen") as refusal,
        trials.stream("shelf", "deaf", {}) as stream,
    ):
        for _ in range(10000):
            stream.stdin.write(b"x" * 65536)
    assert refusal.value.kind == "BadInputError"


def test_a_stream_that_is_left_early_ends_its_program(trials: LocalCluster) -> None:
    with pytest.raises(KeyError), trials.stream("shelf", "hang", {}):
        raise KeyError("the caller's own")


CALL = """
import sys
from pathlib import Path
sys.path.insert(0, {repository!r})
from blocks.clusters.local.cluster import LocalCluster
cluster = LocalCluster(Path({root!r}), project=Path({project!r}))
cluster.call("shelf", sys.argv[1], {{"resting": sys.argv[2]}})
"""


def test_what_a_killed_caller_left_goes_with_the_next_call_once_its_program_is_over(
    trials: LocalCluster, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (temporary / "slipway-scratch-mine").symlink_to(tmp_path / "project")
    repository = str(Path(__file__).parents[4])
    code = CALL.format(repository=repository, root=str(tmp_path / "cluster"), project=str(tmp_path / "project"))
    caller = subprocess.Popen(
        [sys.executable, "-c", code, "rest", str(tmp_path / "resting")],
        env={**os.environ, "TMPDIR": str(temporary)},
        stderr=subprocess.DEVNULL,
    )
    _wait(
        lambda: (tmp_path / "resting").exists()
    )  # before that it reads its arguments, which a killed caller never sends
    (program,) = psutil.Process(caller.pid).children()
    caller.kill()
    caller.wait()
    (left,) = (path for path in temporary.iterdir() if not path.is_symlink())

    def look() -> list[str]:
        env = {**os.environ, "TMPDIR": str(temporary)}
        subprocess.run([sys.executable, "-c", code, "echo", ""], env=env, check=True)
        return sorted(path.name for path in temporary.iterdir())

    assert look() == sorted([left.name, "slipway-scratch-mine"])
    program.kill()
    _wait(lambda: not program.is_running() or program.status() == psutil.STATUS_ZOMBIE)
    assert look() == ["slipway-scratch-mine"]
    assert (tmp_path / "project/trials.py").exists()


def test_without_a_temporary_folder_a_call_says_so(trials: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with pytest.raises(SlipwayError, match="temporary folder: No such file or directory"):
        trials.call("shelf", "echo", {})


def _wait(look: Callable[[], T]) -> T:
    until = time.monotonic() + PATIENCE_SECONDS
    while not (found := look()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found
