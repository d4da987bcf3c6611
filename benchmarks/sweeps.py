"""What a sweep costs beside its trials: 200 trials of one step, two at a time, against Ray Tune doing the same, and
against a plain pool of two that starts the same trainer: what the trainer itself takes.

`python -m benchmarks.sweeps [TRIALS [ROUNDS]]` installs `ray[tune]`, which is no dependency of ours, into an
environment of its own, `.slipway/ray` (`RAY_PYTHON=PYTHON` names another one that has it; empty, Ray is left out). It
prints what it has after each round. `python -m benchmarks.sweeps simulate [TRIALS]` drives many trials on a simulated
cluster.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Sample, interleaved, machine, measure, table
from benchmarks.simulation import simulate

PROJECT = Path(__file__).resolve().parent.parent
ADOPTING = Path(__file__).with_name("adopting.py")
RAY = PROJECT / ".slipway" / "ray"
TRIALS, ROUNDS = 200, 1


def main(trials: int = TRIALS, rounds: int = ROUNDS) -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        hub = _hub(root)
        try:
            _compare(root, trials, rounds)
        finally:
            hub.kill()
            hub.wait()
            for path in root.rglob("*"):
                if path.is_dir() and not path.is_symlink():
                    path.chmod(0o755)


def _compare(root: Path, trials: int, rounds: int) -> None:
    python, count = sys.executable, str(trials)

    def ours(number: int) -> Sample:
        return _measure([python, "-m", "benchmarks.trials", "slipway", str(root / f"round-{number}"), count])

    def pool(number: int) -> Sample:
        return _measure([python, "-m", "benchmarks.trials", "pool", str(root / "round-0"), count])

    variants = {"slipway": ours, "pool of two": pool}
    ray = os.environ["RAY_PYTHON"] if "RAY_PYTHON" in os.environ else _ray()
    script = str(Path(__file__).with_name("ray_tune.py"))
    if ray:
        config = str(root / "round-0" / "by-hand" / "config.toml")
        for name, reuse in (("ray tune", "0"), ("ray tune, reused actors", "1")):
            variants[name] = lambda _, reuse=reuse: _measure([ray, script, python, config, count, reuse])
    taken: dict[str, list[Sample]] = {name: [] for name in variants}
    for number in range(rounds):
        this_round = {name: lambda _, take=take, number=number: take(number) for name, take in variants.items()}
        for name, samples in interleaved(this_round, 1).items():
            taken[name] += samples
        _show(taken, trials)
    if not ray:
        print("\nRay Tune was not measured: RAY_PYTHON names no Python that has it.")


def _show(taken: dict[str, list[Sample]], trials: int) -> None:
    base = statistics.median(s.cpu for s in taken["pool of two"])
    table(
        f"{trials} trials of one step, two at a time",
        ("", "wall", "CPU", "CPU a trial", "beside the trainer, a trial", "memory of the driver"),
        [
            (
                name,
                f"{statistics.median(s.wall for s in samples):.1f} s",
                f"{(cpu := statistics.median(s.cpu for s in samples)):.1f} s",
                f"{cpu / trials:.3f} s",
                f"{(cpu - base) / trials:.3f} s",
                f"{statistics.median(s.peak for s in samples) / 2**20:.0f} MiB",
            )
            for name, samples in taken.items()
        ],
    )


def _ray() -> str:
    """A Python that has Ray Tune, installed once."""
    python = RAY / "bin" / "python"
    if not python.exists():
        print("installing ray[tune] into .slipway/ray", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(RAY)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "ray[tune]==2.60.0"], check=True)
    return str(python)


def _measure(argv: list[str]) -> Sample:
    return measure(argv, {"PYTHONPATH": str(PROJECT), "RAY_DISABLE_IMPORT_WARNING": "1"}, PROJECT, through=ADOPTING)


def _hub(root: Path) -> "subprocess.Popen[bytes]":
    from deployments import server
    from deployments.stack import DEMO, make_assets

    make_assets()
    port = server.free_port(0)
    os.environ["BENCH_HUB"] = f"http://127.0.0.1:{port}"
    argv = [sys.executable, "-m", "deployments.hub.server", "--root", str(DEMO / "repos"), "--port", str(port)]
    with (root / "hub.log").open("w") as log:
        return subprocess.Popen(argv, cwd=PROJECT, stdout=log, stderr=log)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["simulate", *count]:
            simulate([int(n) for n in count] or [1_000, 10_000])
        case count:
            main(*(int(n) for n in count))
