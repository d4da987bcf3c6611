"""What the sweep benchmark measures, in a process of its own.

`python -m benchmarks.trials slipway|pool FOLDER TRIALS`.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from blocks.clusters.local.cluster import LocalCluster
from blocks.hub_access import HubAccess
from blocks.trainer_settings import Resources, TrainerSettings
from tasks.pod.trainers.adapter import Places
from tasks.pod.trainers.table import adapter

CONFIG = """
max_steps = 1
[model]
name = "slipway/tiny-lm"
[data]
name = "datasets/harbour"
batch_size = 1
seq_len = 8
"""


def slipway(folder: Path, trials: int) -> None:
    """A random search: planned, staged and driven as the flow does, without a Prefect server."""
    from deployments.stack import DEMO
    from tasks.runs.ask import ask_run
    from tasks.stages.source import DatasetRequest
    from tasks.stages.staged import stage_dataset, stage_snapshot
    from tasks.stages.volume import ensure_volume
    from tasks.sweeps.ask import ask_sweep, read_search
    from tasks.sweeps.claim import claim_sweep
    from tasks.sweeps.drive import Drive
    from tasks.sweeps.plan import make_sweep_plan

    cluster, hub = LocalCluster(folder), HubAccess(endpoint=os.environ["BENCH_HUB"])
    limits = {"trials": trials, "parallel": 2}
    search = read_search({"axes": {"optim.lr": {"log_range": [1e-4, 1e-2]}}, "limits": limits}, "the benchmark")
    base = ask_run(
        "bench",
        CONFIG,
        TrainerSettings(kind="tiny", resources=Resources(cpus=0.1)),
        volume="bench",
        dataset=DatasetRequest(name="harbour", source=str(DEMO / "harbour")),
    )
    plan = make_sweep_plan(cluster, hub, ask_sweep("bench", search, base))
    (run,) = plan.runs
    assert run.snapshot is not None and base.dataset is not None, plan.items
    ensure_volume(cluster, "bench", None)
    weights = stage_snapshot(cluster, hub, "bench", run.snapshot, lambda note: None)
    dataset = stage_dataset(cluster, hub, "bench", base.dataset, lambda note: None)
    state = Drive(cluster, claim_sweep(cluster, plan, [(weights, dataset)]), lambda drive: None).to_its_end()
    assert len(state.ranked(1)) == trials
    _by_hand(folder)


def _by_hand(folder: Path) -> None:
    """The trainer's config with the places of what was staged, for who starts it without us."""
    volume = folder / "volumes" / "me" / "bench"
    (weights,) = volume.glob("hub/models--*/snapshots/*")
    (dataset,) = volume.glob("datasets/*/*")
    output = folder / "by-hand"
    output.mkdir()
    trainer = adapter("tiny")
    places = Places(str(weights), str(dataset), "OUTPUT", None, str(output))
    (output / "config.toml").write_text(trainer.render(trainer.parse(CONFIG), places))


def pool(folder: Path, trials: int) -> None:
    config = folder / "by-hand" / "config.toml"

    def train(number: int) -> None:
        run_by_hand(sys.executable, config.read_text(), folder / "by-hand" / f"pool-{os.getpid()}-{number}")

    with ThreadPoolExecutor(2) as workers:
        list(workers.map(train, range(trials)))


def run_by_hand(python: str, config: str, output: Path) -> None:
    output.mkdir(parents=True)
    (output / "config.toml").write_text(config.replace("OUTPUT", str(output)))
    command = [python, "-m", "tasks.pod.trainers.tiny.program", "@", str(output / "config.toml")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    what, place, count = sys.argv[1:]
    {"slipway": slipway, "pool": pool}[what](Path(place), int(count))
