"""What a fine-tune costs beside its training: ours with a trainer that ends at once, against a bare Prefect flow with
the same number of tasks on the same server, and against one that starts the same trainer as its own child."""

import sys
from pathlib import Path

from benchmarks.flows import CONFIG
from benchmarks.measure import Sample, compare, interleaved, measure
from deployments.server import Server
from tasks.pod.trainers.adapter import Places
from tasks.pod.trainers.table import adapter

PROJECT = Path(__file__).resolve().parent.parent
ROUNDS = 7


def main(server: Server, hub: str, root: Path) -> None:
    """Print the table.

    Args:
        hub: URL of one that has the demo's model.
        root: of a local cluster to make, with room for small runs.
    """

    def flow(*argv: str) -> Sample:
        return measure([sys.executable, "-m", "benchmarks.flows", *argv], server.environment(), PROJECT)

    # The first one creates the volume and stages everything; the rest is about running.
    tasks = flow("finetune", str(root), hub, "first").output.split()[-1]
    config = _config(root)
    taken = interleaved(
        {
            "bare flow": lambda _: flow("bare", tasks),
            "bare flow, trainer as its child": lambda _: flow("subprocess", tasks, str(config)),
            "finetune": lambda number: flow("finetune", str(root), hub, f"run-{number}"),
            "finetune, asked again": lambda number: flow("finetune", str(root), hub, f"run-{number}"),
        },
        ROUNDS,
    )
    compare(f"A fine-tune of one step, {tasks} tasks", taken, "bare flow")


def _config(root: Path) -> Path:
    """The trainer's config with the places of what is staged, for a flow that starts it by hand."""
    volume = root / "volumes" / "me" / "bench"
    (weights,) = volume.glob("hub/models--*/snapshots/*")
    (dataset,) = volume.glob("datasets/*/*")
    output = root / "by-hand"
    output.mkdir()
    places = Places(str(weights), str(dataset), str(output), None, str(output))
    trainer = adapter("tiny")
    path = root / trainer.config_name
    path.write_text(trainer.render(trainer.parse(CONFIG), places))
    return path
