"""Small checkpoints of every format in the order in which their writers write, made without the libraries."""

import io
import json
import pickle
import sys
import types
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.tasks.pod.checkpoints.writers import safetensors, tiny_files

Files = list[tuple[str, bytes]]

_CLASSES = {
    "torch.distributed.checkpoint.metadata": (
        "Metadata MetadataIndex TensorStorageMetadata BytesStorageMetadata ChunkStorageMetadata StorageMeta"
    ),
    "torch.distributed.checkpoint.filesystem": "_StorageInfo",
    "torch": "Size",
    "transformers": "",
    "transformers.training_args": "TrainingArguments",
    "accelerate": "",
    "accelerate.state": "PartialState",
    "megatron_": "Namespace",
    "trainer_ext": "Mystery",
}


@contextmanager
def torch_names() -> Iterator[dict[str, Any]]:
    """Classes under torch's names, so that pickles name them; gone afterwards."""
    made: dict[str, Any] = {}
    before = {name: sys.modules.get(name) for name in _CLASSES}
    for module, names in _CLASSES.items():
        sys.modules[module] = types.ModuleType(module)
        for name in names.split():
            base = tuple if name == "Size" else object
            made[name] = type(name, (base,), {"__module__": module})
            setattr(sys.modules[module], name, made[name])
    try:
        yield made
    finally:
        for name, module_before in before.items():
            if module_before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module_before


def thing(cls: Any, **state: Any) -> Any:
    made = cls.__new__(cls)
    made.__dict__.update(state)
    return made


def torch_file(stem: str, content: Any = None, storages: int = 2, fill: int = 1) -> bytes:
    """What `torch.save` writes, near enough: a zip of stored records."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(
            zipfile.ZipInfo(f"{stem}/data.pkl"), pickle.dumps({} if content is None else content, protocol=2)
        )
        archive.writestr(zipfile.ZipInfo(f"{stem}/byteorder"), b"little")
        for number in range(storages):
            archive.writestr(
                zipfile.ZipInfo(f"{stem}/data/{number}"), bytes((fill + number + i) % 255 + 1 for i in range(64))
            )
        archive.writestr(zipfile.ZipInfo(f"{stem}/version"), b"3\n")
    return out.getvalue()


def weights_file(fill: int, *names: str) -> bytes:
    return safetensors(
        {name: ("F32", [4, 4], bytes((fill + i) % 255 + 1 for i in range(64))) for name in names or ("w",)}
    )


def dcp_files(fill: int, ranks: int = 2, tensors: int = 1, mystery: bool = False) -> Files:
    """Shards of all ranks, then `.metadata`."""
    shards: dict[str, bytes] = {}
    with torch_names() as t:
        entries, storage = {}, {}
        for tensor in range(tensors):
            name = f"model.{tensor}.weight"
            chunks = []
            for rank in range(ranks):
                file = f"__{rank}_0.distcp"
                item = torch_file("archive", storages=1, fill=fill)
                offset = len(shards.get(file, b""))
                shards[file] = shards.get(file, b"") + item
                at = t["Size"]((rank, 0))
                chunks.append(thing(t["ChunkStorageMetadata"], offsets=at, sizes=t["Size"]((1, 4))))
                index = thing(t["MetadataIndex"], fqn=name, offset=at, index=rank)
                storage[index] = thing(t["_StorageInfo"], relative_path=file, offset=offset, length=len(item))
            entries[name] = thing(t["TensorStorageMetadata"], size=t["Size"]((ranks, 4)), chunks=chunks)
        content = thing(
            t["Metadata"],
            state_dict_metadata=entries,
            planner_data=thing(t["Mystery"]) if mystery else {},
            storage_data=storage,
            storage_meta=thing(t["StorageMeta"], checkpoint_id="x", save_id=str(fill)),
        )
        metadata = pickle.dumps(content, protocol=4)
    return [*shards.items(), (".metadata", metadata)]


def below(directory: str, files: Files) -> Files:
    return [(f"{directory}/{name}", content) for name, content in files]


def training_args(processes: int = 1, only_model: bool = False) -> bytes:
    with torch_names() as t:
        state = thing(t["PartialState"], num_processes=processes)
        return torch_file(
            "training_args", thing(t["TrainingArguments"], save_only_model=only_model, distributed_state=state)
        )


def hf_state(fill: int, processes: int = 1, step: int = 7) -> Files:
    rng = ["rng_state.pth"] if processes == 1 else [f"rng_state_{rank}.pth" for rank in range(processes)]
    return [
        ("optimizer.pt", torch_file("optimizer", fill=fill)),
        ("scheduler.pt", torch_file("scheduler", fill=fill)),
        *((name, torch_file(name.split(".")[0], fill=fill)) for name in rng),
        ("trainer_state.json", json.dumps({"global_step": step, "log_history": [fill]}).encode()),
    ]


def hf_single(fill: int, processes: int = 1) -> Files:
    return [
        ("config.json", b'{"model_type": "x"}'),
        ("model.safetensors", weights_file(fill)),
        ("training_args.bin", training_args(processes)),
        *hf_state(fill, processes),
    ]


def hf_slow_first_rank(fill: int) -> Files:
    """Two ranks, of which the second writes its random state before the first writes anything."""
    files = hf_single(fill, processes=2)
    early = [pair for pair in files if pair[0] == "rng_state_1.pth"]
    return early + [pair for pair in files if pair[0] != "rng_state_1.pth"]


def sharded_weights(fill: int, count: int = 3) -> Files:
    names = [f"model-{n + 1:05}-of-{count:05}.safetensors" for n in range(count)]
    index = {"weight_map": {f"w{n}": name for n, name in enumerate(names)}}
    return [
        *((name, weights_file(fill, f"w{n}")) for n, name in enumerate(names)),
        ("model.safetensors.index.json", json.dumps(index).encode()),
    ]


def hf_sharded(fill: int) -> Files:
    return [*sharded_weights(fill), ("training_args.bin", training_args()), *hf_state(fill)]


def hf_peft(fill: int) -> Files:
    return [
        ("adapter_model.safetensors", weights_file(fill)),
        ("adapter_config.json", b'{"peft_type": "LORA"}'),
        ("training_args.bin", training_args()),
        *hf_state(fill),
    ]


def hf_fsdp(fill: int) -> Files:
    state = [pair for pair in hf_state(fill, 2) if pair[0] != "optimizer.pt"]
    return [*below("pytorch_model_fsdp_0", dcp_files(fill)), *below("optimizer_0", dcp_files(fill)), *state]


def zero_files(fill: int, ranks: int = 2) -> Files:
    told = {"dp_world_size": ranks, "mp_world_size": 1, "ds_config": {"zero_optimization": {"stage": 2}}}
    return [
        ("mp_rank_00_model_states.pt", torch_file("m", told, fill=fill)),
        *((f"zero_pp_rank_{r}_mp_rank_00_optim_states.pt", torch_file("o", fill=fill)) for r in range(ranks)),
    ]


def hf_deepspeed(fill: int) -> Files:
    state = [pair for pair in hf_state(fill, 2) if pair[0] != "optimizer.pt"]
    weights = [("model.safetensors", weights_file(fill)), ("training_args.bin", training_args(2))]
    return [*weights, *below("global_step7", zero_files(fill)), ("latest", b"global_step7"), *state]


def prime_sft(fill: int) -> Files:
    loaders = [(f"trainer/dataloader/rank_{r}.pt", torch_file("rank", fill=fill)) for r in range(2)]
    return [*loaders, *below("trainer", dcp_files(fill))]


def prime_rl(fill: int) -> Files:
    return [*below("trainer", dcp_files(fill)), ("orchestrator/progress.pt", torch_file("progress", {"step": 7}))]


def accelerate(fill: int) -> Files:
    return [
        ("model.safetensors", weights_file(fill)),
        ("optimizer.bin", torch_file("optimizer", fill=fill)),
        ("scheduler.bin", torch_file("scheduler", fill=fill)),
        ("random_states_0.pkl", torch_file("random_states_0", {"step": fill})),
    ]


def metadata_json() -> tuple[str, bytes]:
    return ("metadata.json", json.dumps({"sharded_backend": "torch_dist", "sharded_backend_version": 1}).encode())


def bridge(fill: int) -> Files:
    return [
        *dcp_files(fill),
        metadata_json(),
        ("train_state.pt", torch_file("train_state")),
        ("run_config.yaml", b"model: x\n"),
    ]


TRACKER = ("latest_checkpointed_iteration.txt", b"7")


def megatron_legacy(fill: int) -> Files:
    with torch_names() as t:
        settings = thing(t["Namespace"], tensor_model_parallel_size=2, pipeline_model_parallel_size=1)
        files = [torch_file("m", {"args": settings, "iteration": 7}, fill=fill) for _ in range(2)]
    return [(f"mp_rank_{rank:02}/model_optim_rng.pt", file) for rank, file in enumerate(files)]


def nemo(fill: int) -> Files:
    return [*below("weights", [*dcp_files(fill), metadata_json()]), ("context/model.yaml", b"x: 1\n")]


def llama_factory(fill: int) -> Files:
    return [
        ("metadata.json", b'{"global_step": 7}'),
        *below("model", dcp_files(fill)),
        *below("optimizer", dcp_files(fill)),
        ("scheduler.pt", torch_file("scheduler", fill=fill)),
        ("dataloader/rank_0.pt", torch_file("rank", fill=fill)),
        ("dataloader/rank_1.pt", torch_file("rank", fill=fill)),
        ("CHECKPOINT_COMPLETE", b""),
    ]


def lightning_content(step: int) -> dict[str, Any]:
    return {"global_step": step, "state_dict": {}, "optimizer_states": [{"state": {}}]}


def orbax(fill: int) -> Files:
    return [
        ("_CHECKPOINT_METADATA", b'{"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": null}'),
        ("params/_METADATA", b'{"tree_metadata": {}}'),
        ("params/d/0a", bytes([fill]) * 64),
        ("params/manifest.ocdbt", b"\x0c\xdb" + bytes([fill]) * 64),
        ("commit_success.txt", b"done"),
    ]


@dataclass(frozen=True)
class Kind:
    """How a format's step 7 is called and made.

    Args:
        directory: of the step.
        files: in the order of writing, for one of several saves.
        free: files whose absence, length or age says nothing of the training state.
        last: a file beside the step that is written last, and its text.
        timeless: files of a second save of the same step that may be older or newer without harm.
    """

    directory: str
    files: Callable[[int], Files]
    format: str
    free: frozenset[str] = frozenset()
    timeless: frozenset[str] = frozenset()
    last: tuple[str, bytes] | None = None


KINDS: dict[str, Kind] = {
    "tiny": Kind("step_7", lambda _: list(tiny_files(7).items()), "tiny"),
    "torch-dcp": Kind("step_7", dcp_files, "torch-dcp"),
    "torchtitan": Kind("step-7", dcp_files, "torchtitan"),
    "prime-sft": Kind("step_7", prime_sft, "prime-rl-sft"),
    "prime-rl": Kind("step_7", prime_rl, "prime-rl-rl", timeless=frozenset({"orchestrator/progress.pt"})),
    "hf": Kind("checkpoint-7", hf_single, "hf-trainer", frozenset({"config.json"})),
    "hf-two-ranks": Kind("checkpoint-7", hf_slow_first_rank, "hf-trainer", frozenset({"config.json"})),
    "hf-sharded": Kind("checkpoint-7", hf_sharded, "hf-trainer"),
    "hf-peft": Kind("checkpoint-7", hf_peft, "hf-trainer+peft"),
    "hf-fsdp": Kind("checkpoint-7", hf_fsdp, "hf-trainer+fsdp"),
    "hf-deepspeed": Kind("checkpoint-7", hf_deepspeed, "hf-trainer+deepspeed"),
    "accelerate": Kind("checkpoint_3", accelerate, "accelerate"),
    "megatron": Kind("iter_0000007", lambda fill: [*dcp_files(fill), metadata_json()], "megatron", last=TRACKER),
    "megatron-legacy": Kind("iter_0000007", megatron_legacy, "megatron", last=TRACKER),
    "megatron-bridge": Kind("iter_0000007", bridge, "megatron-bridge", last=TRACKER),
    "deepspeed": Kind("global_step7", zero_files, "deepspeed", last=("latest", b"global_step7")),
    "nemo": Kind("x--val=1.0-step=7-consumed_samples=70.0", nemo, "nemo"),
    "lightning-fsdp": Kind(
        "epoch=0-step=7.ckpt",
        lambda fill: [*dcp_files(fill), ("meta.pt", torch_file("meta", lightning_content(7)))],
        "lightning",
    ),
    "lightning-deepspeed": Kind(
        "epoch=0-step=7.ckpt",
        lambda fill: [*below("checkpoint", zero_files(fill)), ("latest", b"checkpoint")],
        "lightning+deepspeed",
    ),
    "torchtune": Kind(
        "step_7",
        lambda fill: [*sharded_weights(fill), ("recipe_state.pt", torch_file("recipe_state", fill=fill))],
        "torchtune",
    ),
    "llama-factory": Kind("checkpoint-7", llama_factory, "llama-factory"),
    "orbax": Kind("7", orbax, "orbax", frozenset({"params/d/0a", "params/manifest.ocdbt", "commit_success.txt"})),
    "dcp-hf": Kind(
        "step-7",
        lambda fill: [
            *below("sharded", [("shard-00001-model-00001-of-00001.safetensors", weights_file(fill, "w0"))]),
            *sharded_weights(fill),
        ],
        "dcp-hf",
    ),
}
