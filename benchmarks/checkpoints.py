"""Looking at many checkpoints, reading one large metadata file, and holding a source of many files: beside what one
would use instead. `python -m benchmarks.checkpoints` runs it alone; it needs no server."""

import json
import os
import pickle
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Sample, compare, interleaved, machine, measure
from tasks.pod import holds
from tasks.pod.checkpoints.fingerprint import fingerprint
from tasks.pod.layout import Layout
from tests.tasks.pod.checkpoints.synthetic import thing, torch_file, torch_names
from tests.tasks.pod.checkpoints.writers import write_tiny

REPOSITORY = Path(__file__).parents[1]
ROUNDS = 7
RUNS, STEPS = 100, 100
RANKS, TENSORS = 64, 1_000
FILES = 1_000

_WALK = "import pickletools, sys\nfor _ in pickletools.genops(open(sys.argv[1], 'rb').read()): pass"
_STUBS = """
import pickle, sys
class Size(tuple): pass
class Stub: pass
class Reader(pickle.Unpickler):
    def find_class(self, module, name): return Size if name == "Size" else type(name, (Stub,), {})
Reader(open(sys.argv[1], "rb")).load()
"""


def main(folder: Path) -> None:
    """Print the tables.

    Args:
        folder: an empty one for the volumes, on the file system that is measured.
    """
    look_at_many(Layout(folder / "many"))
    read_metadata(Layout(folder / "metadata"))
    hold_many_files(Layout(folder / "hold"))


def look_at_many(layout: Layout) -> None:
    for run in range(RUNS):
        for step in range(1, STEPS + 1):
            write_tiny(layout.run(f"run-{run}") / f"checkpoints/step_{step}", step)

    def first(_: int) -> Sample:
        shutil.rmtree(layout.ours, ignore_errors=True)  # what earlier looks remember
        return _program(layout, "checkpoints.look", {})

    find = f"find {layout.runs} -type f | wc -l"
    taken = interleaved(
        {
            "find, counted by wc": lambda _: measure([_path("sh"), "-c", find]),
            "first look": first,
            "look again": lambda _: _program(layout, "checkpoints.look", {}),
        },
        ROUNDS,
    )
    compare(f"{RUNS * STEPS:,} checkpoints of 4 files, in {RUNS} runs", taken, "find, counted by wc")


def read_metadata(layout: Layout) -> None:
    step = write_distributed(layout.root / "step_1")
    reads = {"path": "step_1"}
    metadata = str(step / ".metadata")
    taken = interleaved(
        {
            "pickle.Unpickler with stubs": lambda _: measure([sys.executable, "-c", _STUBS, metadata]),
            "pickletools.genops": lambda _: measure([sys.executable, "-c", _WALK, metadata]),
            "slipway's verdict": lambda _: _program(layout, "checkpoints.look", reads),
        },
        ROUNDS,
    )
    size = Path(metadata).stat().st_size / 2**20
    compare(
        f"A distributed checkpoint of {RANKS * TENSORS:,} entries ({size:.0f} MiB of `.metadata`)",
        taken,
        next(iter(taken)),
    )


def write_distributed(step: Path) -> Path:
    """A checkpoint as torch's distributed one lays it out: `RANKS` shards of `TENSORS` items, and their metadata."""
    step.mkdir(parents=True)
    item = torch_file("archive", storages=1)
    for rank in range(RANKS):
        (step / f"__{rank}_0.distcp").write_bytes(item * TENSORS)
    with torch_names() as t:
        entries, storage = {}, {}
        for tensor in range(TENSORS):
            name, chunks = f"model.layers.{tensor}.mlp.weight", []
            for rank in range(RANKS):
                at = t["Size"]((rank, 0))
                chunks.append(thing(t["ChunkStorageMetadata"], offsets=at, sizes=t["Size"]((1, 4))))
                index = thing(t["MetadataIndex"], fqn=name, offset=at, index=rank)
                where = {"relative_path": f"__{rank}_0.distcp", "offset": len(item) * tensor, "length": len(item)}
                storage[index] = thing(t["_StorageInfo"], **where)
            entries[name] = thing(t["TensorStorageMetadata"], size=t["Size"]((RANKS, 4)), chunks=chunks)
        content = thing(t["Metadata"], state_dict_metadata=entries, planner_data={}, storage_data=storage)
        (step / ".metadata").write_bytes(pickle.dumps(content, protocol=4))
    return step


def hold_many_files(layout: Layout) -> None:
    source = write_tiny(layout.run("parent") / "checkpoints/step_1", 1)
    for number in range(FILES - 4):
        (source / f"shard-{number:04}.bin").write_bytes(os.urandom(4096))
    chosen = fingerprint(source)

    def hold(number: int) -> Sample:
        asked = {"fork": f"fork-{number}", "source": "runs/parent/checkpoints/step_1", "fingerprint": chosen}
        taken = _program(layout, "holds.make", asked)
        holds.release(layout, {"fork": f"fork-{number}"})
        return taken

    def copy(number: int) -> Sample:
        target = layout.root / f"copy-{number}"
        taken = measure([_path("cp"), "-al", str(source), str(target)])
        shutil.rmtree(target)
        return taken

    taken = interleaved(
        {
            "cp -al": copy,
            "python -c pass": lambda _: measure([sys.executable, "-c", "pass"]),
            "hold, verified before and after": hold,
        },
        ROUNDS,
    )
    compare(f"Holding a checkpoint of {FILES:,} files", taken, "cp -al")


def _program(layout: Layout, name: str, arguments: dict[str, object]) -> Sample:
    argv = [sys.executable, "-m", "tasks.pod.program", name, json.dumps(arguments)]
    return measure(argv, env={"SLIPWAY_VOLUME": str(layout.root)}, cwd=REPOSITORY)


def _path(command: str) -> str:
    found = shutil.which(command)
    assert found is not None, command
    return found


if __name__ == "__main__":
    print(machine())
    with tempfile.TemporaryDirectory() as place:
        main(Path(place))
