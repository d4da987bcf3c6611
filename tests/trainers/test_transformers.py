"""A real Hugging Face Trainer, on CPUs: killed in the middle of a save, continued, forked, with the losses of a run
that nothing disturbed; as local processes, and as pods of a cluster where one is there. Needs torch: `make
test-trainers` installs it into a folder of its own."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blocks.clusters.local.cluster import LocalCluster
from blocks.clusters.port import Cluster
from blocks.hub_access import HubAccess
from blocks.trainer_settings import TrainerSettings
from flows.cli.transfer import upload
from tasks.runs.ask import ask_fork, ask_run
from tasks.runs.follow import Progress
from tasks.runs.request import RunRequest
from tasks.stages.source import DatasetRequest
from tests.cluster.access import is_there, owner_of_its_own, start
from tests.conftest import CLUSTER_TEST_SECONDS
from tests.tasks.conftest import Desk

HERE = Path(__file__).parent
PYTHON = Path(os.environ.get("SLIPWAY_TRAINERS_PYTHON", HERE.parents[1] / ".slipway" / "trainers" / "bin" / "python"))
CONFIG = """
model_name_or_path: /volume/models/llama
dataset_name: datasets/harbour
max_steps: 40
per_device_train_batch_size: 4
learning_rate: 1e-3
lr_scheduler_type: constant
save_steps: 10
logging_steps: 1
report_to: none
seed: 1
use_cpu: true
disable_tqdm: true
"""
TRL = """
model_name_or_path: /volume/models/llama
dataset_name: datasets/harbour
dataset_text_field: text
max_steps: 8
max_length: 64
per_device_train_batch_size: 2
learning_rate: 1e-3
save_steps: 4
logging_steps: 1
report_to: none
eval_strategy: "no"
use_cpu: true
bf16: false
disable_tqdm: true
"""

pytestmark = [
    pytest.mark.trainers,
    pytest.mark.skipif(not PYTHON.exists(), reason="no torch: run `make test-trainers`"),
]


def torch_of_this_machine(assets: Path) -> dict[str, Any]:
    """A pod patch: the folder with torch, the Python that it was made with, the training script, and the dataset."""
    made_with = subprocess.check_output([PYTHON, "-c", "import sys; print(sys.base_prefix)"], text=True).strip()
    folders = dict(enumerate(sorted({str(PYTHON.parent.parent), made_with, str(HERE), str(assets)} - {"/usr"})))
    mounts = [{"name": f"torch-{n}", "mountPath": folder, "readOnly": True} for n, folder in folders.items()]
    volumes: list[Any] = [{"name": f"torch-{n}", "hostPath": {"path": folder}} for n, folder in folders.items()]
    if any(folder.startswith("/root/") for folder in folders.values()):  # the image's own /root is for root alone
        mounts.append({"name": "open", "mountPath": "/root"})
        volumes.append({"name": "open", "emptyDir": {}})
    return {"spec": {"volumes": volumes, "containers": [{"name": "main", "volumeMounts": mounts}]}}


@pytest.fixture
def local(tmp_path: Path) -> Cluster:
    return LocalCluster(tmp_path / "cluster", poll_seconds=0.2)


@pytest.fixture
def pods(demo_assets: Path) -> Iterator[Cluster]:
    if not is_there():
        pytest.skip("no Kubernetes runs here (tests/cluster/up starts one), and SLIPWAY_TEST_KUBECONFIG names none")
    kubernetes = start()
    if not kubernetes.ours:
        pytest.skip("the nodes of a cluster that was named do not have this machine's torch")
    with owner_of_its_own(kubernetes) as owner:
        yield kubernetes.connect(owner, pod_patch=torch_of_this_machine(demo_assets))


@pytest.fixture(params=["local", pytest.param("pods", marks=pytest.mark.timeout(CLUSTER_TEST_SECONDS))])
def desk(request: pytest.FixtureRequest, tmp_path: Path, demo_assets: Path) -> Desk:
    cluster: Cluster = request.getfixturevalue(request.param)
    cluster.volumes.create("v", 2**30)
    subprocess.run([PYTHON, HERE / "make_llama.py", tmp_path / "llama"], check=True, capture_output=True)
    upload(cluster, "v", tmp_path / "llama", "models/llama", replace=False)
    return Desk(cluster, HubAccess(endpoint="http://127.0.0.1:9"), demo_assets)  # no Hub is needed


def request(desk: Desk, run: str, config: str = CONFIG, **changes: Any) -> RunRequest:
    options = {"interpreter": str(PYTHON)} | ({"program": str(HERE / "train.py")} if config == CONFIG else {})
    trainer = TrainerSettings(kind="transformers", options=options)
    data = DatasetRequest(name="harbour", source=str(desk.assets / "harbour"))
    return ask_run(run, config, trainer, changes=changes, volume="v", dataset=data)


def losses(progress: Progress) -> dict[int, float]:
    return {step: row["loss"] for step, row in progress.curve.items() if "loss" in row}


def ended(progress: Progress) -> str:
    assert progress.end is not None
    return progress.end.state


def test_killed_in_a_save_continued_and_forked_it_has_the_losses_of_an_undisturbed_run(
    desk: Desk,
) -> None:
    whole = desk.train(request(desk, "whole"))
    assert ended(whole) == "completed", whole.end
    expected = losses(whole)
    assert sorted(expected) == list(range(1, 41))

    killed = desk.train(request(desk, "killed", die_in_save_of=30))
    assert ended(killed) == "failed"
    assert [c["step"] for c in killed.checkpoints if c["verdict"] == "complete"] == [10, 20]
    (torn,) = [c for c in killed.checkpoints if c["verdict"] != "complete"]
    assert torn["step"] == 30 and "optimizer.pt" in torn["why"]

    again = desk.train(request(desk, "killed", die_in_save_of=30))
    assert ended(again) == "completed", again.end
    assert again.launch.attempt.resume.step == 20
    assert [moved["path"] for moved in again.launch.attempt.set_aside] == ["checkpoint-30"]
    assert losses(again) == expected

    fork = ask_fork(desk.cluster, "v", "killed", "fork", step=30, changes={"die_in_save_of": 0})
    forked = desk.train(fork)
    assert ended(forked) == "completed", forked.end
    assert losses(forked) == {step: loss for step, loss in expected.items() if step > 30}
    assert [c["step"] for c in forked.checkpoints if c["verdict"] == "complete"] == [40]


def test_trls_own_sft_which_passes_no_checkpoint_on_continues_all_the_same(desk: Desk) -> None:
    if subprocess.run([PYTHON, "-c", "import trl, datasets"], capture_output=True).returncode:
        pytest.skip("no TRL: run `make test-trainers`")
    whole = desk.train(request(desk, "whole", TRL))
    assert ended(whole) == "completed", whole.end

    forked = desk.train(ask_fork(desk.cluster, "v", "whole", "fork", step=4))
    assert ended(forked) == "completed", forked.end
    assert losses(forked) == {step: loss for step, loss in losses(whole).items() if step > 4}
    assert len(losses(forked)) == 4
