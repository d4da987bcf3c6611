"""Makes checkpoint directories like those in this folder with the real libraries, kills and damage included.

Not run in CI. In an environment of its own:

    pip install torch==2.13.0 transformers==5.24.0 accelerate==1.15.0 peft==0.21.2 lightning==2.6.6 safetensors==0.8.0
    python make_corpus.py OUT

Writes OUT/runs/<case>/ and OUT/<case>.tar.gz (PAX, times below a second). The verdicts in `expected.json` are written
by hand from what was done here, and by loading each step with the library that wrote it.
"""

import os
import shutil
import signal
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp

CASES: dict[str, Callable[[Path], None]] = {}


def case(make: Callable[[Path], None]) -> Callable[[Path], None]:
    CASES[make.__name__.replace("_", "-")] = make
    return make


# torch distributed checkpoints


def _rank(rank: int, ranks: int, path: str, step: int, fill: float, port: int, end: str) -> None:
    """Save as one of several processes; `end` names the moment at which all of them are killed."""
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    mesh = dist.device_mesh.init_device_mesh("cpu", (ranks,))
    whole = torch.full((8 * ranks, 16), fill)
    state = {"model.weight": dist.tensor.distribute_tensor(whole, mesh, [dist.tensor.Shard(0)]), "step": step}
    if end == "before .metadata":
        dcp.FileSystemWriter.finish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    if end == "before rename":
        Path.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    if end == "before rank 1 writes" and rank == 1:
        dcp.FileSystemWriter.write_data = lambda *_: time.sleep(60)
    dcp.save(state, checkpoint_id=path)


def save_dcp(path: Path, step: int, ranks: int = 1, fill: float = 1.0, end: str = "") -> None:
    path.mkdir(parents=True, exist_ok=True)
    port = 20_000 + os.getpid() % 20_000
    started = mp.start_processes(
        _rank, (ranks, str(path), step, fill, port, end), ranks, join=False, start_method="spawn"
    )  # fmt: skip
    if end == "before rank 1 writes":
        before = (path / "__0_0.distcp").stat().st_mtime_ns
        while (path / "__0_0.distcp").stat().st_mtime_ns == before:
            time.sleep(0.01)
        time.sleep(0.5)
        for process in started.processes:
            process.kill()
    for process in started.processes:
        process.join()


def cut(path: Path, share: float) -> None:
    """Lose the end of a file and keep its times, as a host crash does."""
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    os.truncate(path, int(path.stat().st_size * share))
    os.utime(path, ns=times)


def zero(path: Path, start: int, end: int | None = None) -> None:
    """Lose blocks in the middle or at the end of a file and keep its size and times."""
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    content = bytearray(path.read_bytes())
    end = len(content) if end is None else end
    content[start:end] = bytes(end - start)
    path.write_bytes(content)
    os.utime(path, ns=times)


@case
def dcp_two_ranks(run: Path) -> None:
    for step in (100, 200):
        save_dcp(run / f"checkpoints/step_{step}", step, ranks=2)


@case
def dcp_killed_before_metadata(run: Path) -> None:
    save_dcp(run / "step_10", 10, ranks=2)
    save_dcp(run / "step_20", 20, ranks=2, end="before .metadata")


@case
def dcp_metadata_tmp_left(run: Path) -> None:
    save_dcp(run / "step_10", 10)
    save_dcp(run / "step_20", 20, end="before rename")


@case
def dcp_resave_mixed_generations(run: Path) -> None:
    save_dcp(run / "step_10", 10, ranks=2)
    save_dcp(run / "step_20", 20, ranks=2)
    save_dcp(run / "step_20", 20, ranks=2, fill=2.0, end="before rank 1 writes")


@case
def dcp_stale_extra_shard(run: Path) -> None:
    save_dcp(run / "step_20", 20, ranks=2)
    save_dcp(run / "step_20", 20, ranks=1)


@case
def dcp_truncated_shard(run: Path) -> None:
    save_dcp(run / "step_30", 30, ranks=2)
    save_dcp(run / "step_40", 40, ranks=2)
    cut(run / "step_40/__1_0.distcp", 0.6)


# the Hugging Face Trainer


def train_hf(run: Path, steps: int, every: int, stop_at: str = "", **arguments: object) -> None:
    """Train a tiny model in a process of its own, killed when the last step's file `stop_at` is about to be written."""
    child = mp.get_context("spawn").Process(target=_train_hf, args=(str(run), steps, every, stop_at, arguments))
    child.start()
    child.join()


def _train_hf(run: str, steps: int, every: int, stop_at: str, arguments: dict[str, object]) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, trainer_callback

    sizes = LlamaConfig(
        vocab_size=32, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2,
    )  # fmt: skip
    rows = [{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]}] * 512
    settings = TrainingArguments(
        output_dir=run, max_steps=steps, save_steps=every, per_device_train_batch_size=1, use_cpu=True, report_to=[],
        disable_tqdm=True, **arguments,
    )  # fmt: skip
    trainer = Trainer(LlamaForCausalLM(sizes), settings, train_dataset=rows)
    last = f"checkpoint-{steps}"
    if stop_at == "trainer_state.json":
        write = trainer_callback.TrainerState.save_to_json

        def or_die(self: object, path: str) -> None:
            if last in path:
                os.kill(os.getpid(), signal.SIGKILL)
            write(self, path)

        trainer_callback.TrainerState.save_to_json = or_die
    elif stop_at:
        save = torch.save

        def save_or_die(content: object, file: object, *more: object, **how: object) -> None:
            if str(file).endswith(f"{last}/{stop_at}"):
                Path(str(file)).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            save(content, file, *more, **how)

        torch.save = save_or_die
    trainer.train()


@case
def hf_single_file(run: Path) -> None:
    train_hf(run, 10, 5)


@case
def hf_save_only_model(run: Path) -> None:
    train_hf(run, 6, 3, save_only_model=True)


@case
def hf_no_trainer_state(run: Path) -> None:
    train_hf(run, 8, 4, stop_at="trainer_state.json")


@case
def hf_empty_optimizer(run: Path) -> None:
    train_hf(run, 9, 3, stop_at="optimizer.pt")
    cut(run / "checkpoint-6/optimizer.pt", 0)


@case
def hf_zero_tail(run: Path) -> None:
    train_hf(run, 10, 5)
    weights = run / "checkpoint-10/model.safetensors"
    zero(weights, (weights.stat().st_size - 8192) // 4096 * 4096)


@case
def hf_zeroed_head(run: Path) -> None:
    train_hf(run, 10, 5)
    zero(run / "checkpoint-10/optimizer.pt", 0, 4096)


@case
def hf_names(run: Path) -> None:
    train_hf(run, 10, 10)
    for name in ("checkpoint-20-backup", "tmp-checkpoint-30", "old_checkpoint-40"):
        shutil.copytree(run / "checkpoint-10", run / name)


@case
def hf_global_step_mismatch(run: Path) -> None:
    train_hf(run, 10, 10)
    shutil.copytree(run / "checkpoint-10", run / "checkpoint-20")


# others


@case
def accelerate_save_state(run: Path) -> None:
    from accelerate import Accelerator
    from accelerate.utils import ProjectConfiguration

    settings = ProjectConfiguration(project_dir=str(run), automatic_checkpoint_naming=True)
    accelerator = Accelerator(project_config=settings, cpu=True)
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)
    accelerator.prepare(model, optimizer, scheduler)
    for _ in range(3):
        accelerator.save_state()
    (run / "checkpoints/checkpoint_2/random_states_0.pkl").unlink()


@case
def lightning(run: Path) -> None:
    from lightning.pytorch import Trainer, callbacks, demos

    keep = callbacks.ModelCheckpoint(run / "checkpoints", every_n_train_steps=4, save_top_k=-1, save_last="link")
    trainer = Trainer(max_steps=12, limit_train_batches=4, accelerator="cpu", logger=False, callbacks=[keep])
    trainer.fit(demos.boring_classes.BoringModel())
    cut(run / "checkpoints/epoch=2-step=12.ckpt", 0.55)
    last = run / "checkpoints/last.ckpt"
    last.unlink()
    last.symlink_to("epoch=1-step=8.ckpt")


def main(out: Path) -> None:
    for name, make in CASES.items():
        run = out / "runs" / name
        run.mkdir(parents=True)
        make(run)
        with tarfile.open(out / f"{name}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as tar:
            tar.add(run, f"runs/{name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
