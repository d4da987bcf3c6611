"""Copying weights from a volume to the node, against what people would use instead; prints Markdown tables.

`python -m benchmarks.hydration [MEGABYTES] [ROUNDS]`. Cold sources need root (to drop caches); a slow volume needs
FUSE, a C compiler and libfuse3's headers. What can not be had is left out, and said.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Sample, compare, interleaved, machine, measure
from tasks.pod.area import remove_tree
from tasks.pod.files import File, prove
from tasks.pod.hydrate import describe, place_weights
from tasks.pod.layout import Layout
from tasks.pod.published import manifest_entry
from tasks.pod.weights import inspect

COMMIT = "c" * 40
SHARDS, SMALL = 8, 24
LATENCY_MS, HANDLE_MBS = 5, 100


def main(megabytes: int = 1024, rounds: int = 3) -> None:
    print(machine())
    with tempfile.TemporaryDirectory(dir=os.environ.get("SLIPWAY_BENCH_DISK")) as disk:
        volume = make_volume(Path(disk) / "volume", megabytes)
        shared_memory = Path("/dev/shm")
        memory = Path(tempfile.mkdtemp(dir=shared_memory)) if shared_memory.is_dir() else Path(disk) / "memory"
        try:
            _compare("Fast disk, warm, to the same disk", volume, Path(disk) / "node", rounds, cold=False)
            _compare("Fast disk, warm, to memory", volume, memory, rounds, cold=False)
            if _can_drop_caches():
                _compare("Fast disk, cold, to memory", volume, memory, rounds, cold=True)
                with _slow(volume, Path(disk)) as far:
                    title = f"Slow volume ({LATENCY_MS} ms a call, {HANDLE_MBS} MB/s a handle), cold, to memory"
                    _compare(title, far, memory, rounds, cold=True)
            else:
                print("\nNot measured: cold sources (caches can only be dropped by root).")
        finally:
            remove_tree(memory)


def make_volume(root: Path, megabytes: int) -> Path:
    """A volume with one staged snapshot: eight shards and some small files."""
    layout = Layout(root)
    snapshot = layout.snapshot("model", "bench/model", COMMIT)
    snapshot.mkdir(parents=True)
    size = megabytes * 2**20 // SHARDS
    names = [f"model-{number:05}-of-{SHARDS:05}.safetensors" for number in range(1, SHARDS + 1)]
    for number, name in enumerate(names):
        entry = {f"layer.{number}": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
        header = json.dumps(entry).encode()
        with (snapshot / name).open("wb") as out:
            out.write(len(header).to_bytes(8, "little") + header)
            for _ in range(0, size, 2**20):
                out.write(os.urandom(2**20))
    weight_map = {f"layer.{number}": name for number, name in enumerate(names)}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (snapshot / "config.json").write_text(json.dumps({"architectures": ["Bench"], "model_type": "bench"}))
    for number in range(SMALL):
        (snapshot / f"extra-{number}.json").write_bytes(os.urandom(20_000))
    proofs = {path: prove(path) for path in sorted(snapshot.iterdir())}
    files = [manifest_entry(snapshot, File(p.name, proof.size, proof.sha256), proof) for p, proof in proofs.items()]
    record = {"repo_type": "model", "repo": "bench/model", "commit": COMMIT, "path": layout.relative(snapshot)}
    manifest = layout.snapshot_manifest("model", "bench/model", COMMIT)
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps(record | {"files": files, "staged_at": time.time()}))
    os.sync()
    return root


def _compare(title: str, volume: Path, target: Path, rounds: int, *, cold: bool) -> None:
    source = Layout(volume).snapshot("model", "bench/model", COMMIT)
    slipway = [sys.executable, "-m", "benchmarks.hydration", "copy", str(volume)]
    tools: dict[str, list[str]] = {"cp -a": ["cp", "-a", str(source)], "slipway, verified": slipway}
    tools |= {"rsync -a": ["rsync", "-a", f"{source}/"], "rclone copy": ["rclone", "copy", str(source)]}
    found = {name: [shutil.which(words[0]) or "", *words[1:]] for name, words in tools.items()}
    tools = {name: words for name, words in found.items() if words[0]}

    def take(words: list[str], *, ours: bool) -> Callable[[int], Sample]:
        def once(number: int) -> Sample:
            if target.exists():
                remove_tree(target)
            target.mkdir(parents=True)
            if cold:
                _drop_caches()
            sample = measure([*words, str(target / "copy")], env={"PYTHONPATH": str(Path.cwd())})
            _check(target, ours=ours)
            return sample

        return once

    taken = interleaved({name: take(w, ours=name.startswith("slipway")) for name, w in tools.items()}, rounds)
    compare(title, taken, "cp -a")
    ratios = [ours.wall / cp.wall for ours, cp in zip(taken["slipway, verified"], taken["cp -a"], strict=True)]
    print(f"\nslipway against cp -a, round by round: {', '.join(f'{ratio:.2f}' for ratio in ratios)}.")


def _check(target: Path, *, ours: bool) -> None:
    """The copy can be loaded: every header, every shard of the index."""
    where = f"copy/weights/models--bench--model/snapshots/{COMMIT}" if ours else "copy"
    found = inspect(Layout(target), {"path": where})
    if not found["ok"]:
        raise RuntimeError(found["why"])


def _copy(volume: str, scratch: str) -> None:
    layout = Layout(Path(volume))
    path = layout.relative(layout.snapshot("model", "bench/model", COMMIT))
    plan = {"run": "b", "request": {"weights": {"placement": "hydrate"}}, "resolved": {"weights": {"path": path}}}
    _, report = place_weights(layout, plan, 1, Path(scratch))
    print(describe(report))


def _can_drop_caches() -> bool:
    return os.access("/proc/sys/vm/drop_caches", os.W_OK)


def _drop_caches() -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


@contextmanager
def _slow(volume: Path, work: Path) -> Iterator[Path]:
    program, mount = work / "slow_volume", work / "far"
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, check=True)
    code = Path(__file__).with_name("slow_volume.c")
    subprocess.run(["cc", "-O2", str(code), "-o", str(program), *flags.stdout.split()], check=True)
    mount.mkdir()
    options = ["-f", "-o", "ro,max_threads=64", str(mount)]
    server = subprocess.Popen([str(program), str(volume), str(LATENCY_MS), str(HANDLE_MBS), *options])
    try:
        while not mount.is_mount():
            time.sleep(0.05)
        yield mount
    finally:
        subprocess.run(["fusermount3", "-u", str(mount)], check=True)
        server.wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["copy"]:
        _copy(sys.argv[2], sys.argv[3])
    else:
        main(*(int(word) for word in sys.argv[1:]))
