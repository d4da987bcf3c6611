"""Starts a script that trains with the Hugging Face Trainer: `slipway_launch.py SCRIPT.py|-m MODULE [ARGUMENTS]`.

It is put beside the config and runs in the trainer's image, so it imports nothing of ours. It adds to the script what a
run needs and scripts leave out: `resume_from_checkpoint` is honoured (TRL's own `sft` never passes it on, and would
silently begin again), and metrics are written as JSON lines as they come.
"""

import importlib
import json
import runpy
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    prepare_trainer()
    if sys.argv[1] == "-m":
        module, sys.argv = sys.argv[2], sys.argv[2:]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv = sys.argv[1:]
        sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
        runpy.run_path(sys.argv[0], run_name="__main__")


def prepare_trainer() -> None:
    transformers = importlib.import_module("transformers")
    trainer = transformers.Trainer

    class Recorder(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if args.resume_from_checkpoint and not state.global_step:
                sys.exit(f"error: the script did not continue from {args.resume_from_checkpoint}: nothing was trained.")

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
            if state.is_world_process_zero and logs:
                row = {"step": state.global_step, "time": time.time(), **logs}
                with Path(args.output_dir, "metrics.jsonl").open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row, default=float) + "\n")

    make, train = trainer.__init__, trainer.train

    def make_with_recorder(self: Any, *args: Any, **more: Any) -> None:
        make(self, *args, **more)
        self.add_callback(Recorder())

    def train_on(self: Any, resume_from_checkpoint: Any = None, *args: Any, **more: Any) -> Any:
        return train(self, resume_from_checkpoint or self.args.resume_from_checkpoint, *args, **more)

    trainer.__init__, trainer.train = make_with_recorder, train_on


if __name__ == "__main__":
    main()
