"""Ray Tune starting the same trainer, by a Python that has `ray[tune]`.

`python ray_tune.py PYTHON CONFIG TRIALS REUSE`.
"""

import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import ray
from ray import tune

PYTHON, CONFIG, TRIALS, REUSE = sys.argv[1:]
PROJECT = str(Path(__file__).resolve().parent.parent)


class Trial(tune.Trainable):
    def setup(self, config):
        pass

    def reset_config(self, new_config):
        return True

    def step(self):
        output = Path(tempfile.gettempdir()) / f"ray-trial-{uuid.uuid4().hex}"
        output.mkdir()
        (output / "config.toml").write_text(Path(CONFIG).read_text().replace("OUTPUT", str(output)))
        command = [PYTHON, "-m", "tasks.pod.trainers.tiny.program", "@", str(output / "config.toml")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=PROJECT)
        return {"loss": 1.0, "done": True}

    def save_checkpoint(self, checkpoint_dir):
        pass

    def load_checkpoint(self, checkpoint):
        pass


with tempfile.TemporaryDirectory() as storage:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    tuner = tune.Tuner(
        tune.with_resources(Trial, {"cpu": 1}),
        param_space={"lr": tune.loguniform(1e-4, 1e-2)},
        tune_config=tune.TuneConfig(
            num_samples=int(TRIALS), max_concurrent_trials=2, reuse_actors=bool(int(REUSE)), metric="loss", mode="min"
        ),
        run_config=tune.RunConfig(storage_path=storage, verbose=0),
    )
    results = tuner.fit()
    assert len(results) == int(TRIALS) and not results.errors
    ray.shutdown()
