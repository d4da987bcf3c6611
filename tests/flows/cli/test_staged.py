"""`slipway models|datasets`: what is staged, how others read it, and what is not taken away. No Prefect is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.cli.conftest import Slipway
from tests.tasks.pod.staging.conftest import write_model

LOAD = """
import os
from pathlib import Path
from huggingface_hub import snapshot_download
from safetensors.numpy import load_file
path = Path(os.environ["MODEL_PATH"])
assert snapshot_download("slipway/tiny-lm", revision=path.name) == str(path), "another snapshot"
tensors = {name for file in path.glob("*.safetensors") for name in load_file(file)}
assert tensors and (path / "config.json").is_file()
print(len(tensors))
"""


@pytest.mark.parametrize("words", [("models",), ("models", "list")])
def test_staged_models_are_listed_with_who_uses_them(bench: Slipway, words: tuple[str, ...]) -> None:
    answer = bench(*words)

    assert answer.code == 0
    assert all(word in answer.out for word in ("slipway/tiny-lm", "main", "bench", "base, more"))
    assert bench("models", "list", "-o", "json").json[0]["used_by"] == ["base", "more"]


def test_a_shell_loads_a_staged_model_offline_with_what_mount_prints(bench: Slipway, tmp_path: Path) -> None:
    lines = bench("models", "mount", "slipway/tiny-lm@main").out
    (tmp_path / "load.py").write_text(LOAD)
    script = f"set -e\n{lines}exec {sys.executable} load.py\n"
    plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:9"}

    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=plain, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
    assert "=/volume" not in lines


def test_a_pod_gets_mounts_environment_and_path(bench: Slipway) -> None:
    yaml = pytest.importorskip("yaml")

    spec = yaml.safe_load(bench("models", "mount", "slipway/tiny-lm", "--pod").out)["spec"]

    (container,) = spec["containers"]
    assert container["volumeMounts"] == [{"name": "slipway", "mountPath": "/volume", "readOnly": True}]
    assert spec["volumes"] == [{"name": "slipway", "persistentVolumeClaim": {"claimName": "bench"}}]
    env = {entry["name"]: entry["value"] for entry in container["env"]}
    assert env["HF_HUB_OFFLINE"] == "1" and env["HF_HUB_CACHE"] == "/volume/hub"
    assert env["MODEL_PATH"].startswith("/volume/hub/models--slipway--tiny-lm/snapshots/")


def test_what_is_not_staged_is_refused_with_what_is(bench: Slipway) -> None:
    bench("models", "mount", "slipway/other").refused(1, "slipway/other is staged on no volume")
    bench("models", "mount", "slipway/tiny-lm@dev", "--volume", "bench").refused(1, "is not staged", "main")


def test_a_model_is_removed_once_its_runs_have_ended(copied: Slipway) -> None:
    answer = copied("models", "remove", "slipway/tiny-lm", "--yes")

    assert answer.code == 0, answer
    assert "Removed slipway/tiny-lm@" in answer.err
    assert copied("models", "-o", "json").code == 2  # an option of list
    assert copied("models", "list", "-o", "json").json == []


def test_datasets_are_listed_and_removed_by_version(copied: Slipway) -> None:
    (row,) = copied("datasets", "list", "-o", "json").json
    assert (row["name"], row["used_by"]) == ("harbour", ["base", "more"])
    assert row["version"] in copied("datasets").out

    copied("datasets", "remove", "harbour", "--yes").refused(2, "NAME/VERSION")
    copied("datasets", "remove", "harbour/v9", "--yes").refused(1, "on no volume")
    assert copied("datasets", "remove", f"harbour/{row['version']}", "--yes").code == 0
    assert copied("datasets", "list", "-o", "json").json == []


def test_weights_of_ones_own_are_staged_listed_and_removed(
    copied: Slipway, tmp_path: Path, prefect_server: dict[str, str]
) -> None:
    write_model(tmp_path / "weights", size=4000)
    stage = ("stage", "weights")

    staged = copied.process(*stage, "mine", tmp_path / "weights", "--volume", "bench", env=prefect_server)
    assert staged.code == 0, staged.err
    assert "/volume/models/mine" in staged.out and "complete" in staged.out
    rows = {row["path"]: row for row in copied("models", "list", "-o", "json").json}
    assert rows["models/mine"]["staged"] and rows["models/mine"]["used_by"] == []
    assert "/volume/models/mine" in copied("models").out

    (tmp_path / "weights" / "config.json").unlink()
    refused = copied.process(*stage, "other", tmp_path / "weights", "--volume", "bench", env=prefect_server)
    refused.refused(1, "no config.json")

    gone = copied("models", "remove", "/volume/models/mine", "--yes")
    assert gone.code == 0 and "Removed /volume/models/mine" in gone.out + gone.err
    assert copied("models", "remove", "/volume/models/mine", "--yes").code != 0
