import json
import subprocess
import sys
from pathlib import Path

import pytest

from blocks.clusters.errors import NotFoundError
from blocks.clusters.job import JobState, Mount, SecretRef
from blocks.clusters.local.environment import translate, translate_command
from tests.blocks.clusters.local.bench import LocalBench

PLACES = {"/volume": Path("/a"), "/volume/runs/x": Path("/b"), "/scratch": Path("/s")}


@pytest.mark.parametrize(
    ("token", "real"),
    [
        ("/volume", "/a"),
        ("/volume/", "/a/"),
        ("/volume/data set/f", "/a/data set/f"),
        ("/volume/runs/x/out", "/b/out"),
        ("/volume/runs/xy", "/a/runs/xy"),
        ("/scratch/hf", "/s/hf"),
        ("/volumes", "/volumes"),
        ("--out=/volume/x", "--out=/volume/x"),
        ("x/volume/", "x/volume/"),
        ("", ""),
    ],
)
def test_a_path_of_the_container_becomes_the_real_one_by_its_longest_mount(token: str, real: str) -> None:
    assert translate(token, PLACES) == real


def test_python_is_the_interpreter_that_runs_us() -> None:
    assert translate_command(("python", "/volume/x.py", "python"), PLACES) == [sys.executable, "/a/x.py", "python"]
    assert translate_command((), PLACES) == []


def test_a_job_knows_where_its_volume_and_its_scratch_are(local: LocalBench) -> None:
    local.volume()
    code = (
        "import os, json; print(json.dumps([os.environ['SLIPWAY_VOLUME'], os.environ['SLIPWAY_SCRATCH'], os.getcwd()]))"
    )
    local.cluster.jobs.submit(local.job("one", code, mounts=(Mount(volume="shelf"),)))
    local.ended("one")
    volume, scratch, here = json.loads(next(iter(local.cluster.jobs.logs("one"))))
    assert volume == str(local.root / "volumes/me/shelf")
    assert scratch == here == str(local.root / "jobs/me/one/scratch")
    # The end does not wait for the removal of a scratch that may be large.
    local.wait(lambda: not Path(scratch).exists(), "the scratch to be gone")


def test_a_job_can_run_the_programs_beside_the_data(local: LocalBench) -> None:
    local.volume()
    command = ("python", "-m", "tasks.pod.program", "runs.list", "{}")
    local.cluster.jobs.submit(local.job("one", command=command, mounts=(Mount(volume="shelf"),)))
    assert local.ended("one").state == JobState.COMPLETED
    assert json.loads(list(local.cluster.jobs.logs("one"))[-1]) == {"ok": {"runs": [], "damaged": {}}}


def test_nothing_else_of_the_submitters_environment_reaches_a_job(
    local: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_KEY", "tell nobody")
    local.cluster.jobs.submit(local.job("one", "import os; print(*os.environ)", env={"MINE": "1"}))
    local.ended("one")
    names = set(next(iter(local.cluster.jobs.logs("one"))).split())
    assert "PREFECT_API_KEY" not in names
    assert {"MINE", "PATH", "PYTHONUNBUFFERED"} <= names


def test_a_secret_reaches_the_program_and_no_file_and_no_argument(
    local: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_TOKEN", "hf_very_secret")
    code = "import os, time; print(len(os.environ['HF_TOKEN']), 'SLIPWAY_SECRET_HF_TOKEN' in os.environ)\n"
    code += "print('up', flush=True); time.sleep(600)"
    program = local.running("one", code, secrets={"HF_TOKEN": SecretRef(name="hub", key="HUB_TOKEN")})
    assert list(local.cluster.jobs.logs("one")) == ["14 False", "up"]
    supervisor = local.place("one").supervisor()
    assert supervisor is not None
    pids = f"{supervisor.pid},{program.pid}"
    assert "hf_very_secret" not in subprocess.check_output(["ps", "-o", "args", "-p", pids], text=True)
    for path in local.root.rglob("*"):
        assert not path.is_file() or b"hf_very_secret" not in path.read_bytes(), path


def test_a_secret_can_be_a_file(local: LocalBench) -> None:
    secret = SecretRef(name="hub", key="TOKEN_IN_A_FILE")
    with pytest.raises(NotFoundError, match="secrets/hub/TOKEN_IN_A_FILE"):
        local.cluster.jobs.submit(local.job("one", secrets={"T": secret}))
    path = local.root / "secrets/hub/TOKEN_IN_A_FILE"
    path.parent.mkdir(parents=True)
    path.write_text("abc\n")
    local.cluster.jobs.submit(local.job("one", "import os; print(len(os.environ['T']))", secrets={"T": secret}))
    local.ended("one")
    assert list(local.cluster.jobs.logs("one")) == ["3"]


def test_the_supervisor_imports_nothing_heavy() -> None:
    code = "import sys, blocks.clusters.local.supervisor; print({'pydantic', 'psutil', 'asyncio'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"
