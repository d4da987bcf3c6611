"""Copying weights from a volume to the node, against what people would use instead; prints Markdown tables.

`python -m benchmarks.hydration [MEGABYTES] [ROUNDS] [SLOW_MEGABYTES]`. Cold sources need root (to drop caches); a slow
volume needs FUSE, a C compiler and libfuse3's headers. What can not be had is left out, and said. The volume and the
node's disk are below `$SLIPWAY_BENCH_DISK`, else where temporary files go: three times the megabytes have to fit.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Sample, compare, interleaved, machine, measure
from benchmarks.tools import site_packages, tool
from tasks.pod.area import remove_tree
from tasks.pod.files import File, prove
from tasks.pod.layout import Layout
from tasks.pod.published import manifest_entry

COMMIT = "c" * 40
SHARDS, SMALL = 8, 24
LATENCY_MS, HANDLE_MBS = 5, 100
_SHARED_MEMORY = Path("/dev/shm")
_ROOM = 4 / 3
"""What a copy to memory needs of it."""


def main(megabytes: int = 4096, rounds: int = 3, slow_megabytes: int = 512) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # gigabytes are not left behind
    print(machine())
    with tempfile.TemporaryDirectory(dir=os.environ.get("SLIPWAY_BENCH_DISK")) as folder:
        disk = Path(folder)
        memory = Path(tempfile.mkdtemp(dir=_SHARED_MEMORY)) if _SHARED_MEMORY.is_dir() else None
        try:
            bench = Bench(make_volume(disk / "volume", megabytes), megabytes, rounds)
            bench.compare("Fast disk, warm, to the same disk", disk / "node", cold=False)
            roomy = memory is not None and _free(memory) >= megabytes * 2**20 * _ROOM
            if memory and roomy:
                bench.compare("Fast disk, warm, to memory", memory, cold=False)
            else:
                print("\nNot measured: copies to memory (there is no room in /dev/shm).")
            if not os.access("/proc/sys/vm/drop_caches", os.W_OK):
                print("\nNot measured: cold sources and the slow volume (caches can only be dropped by root).")
                return
            bench.compare("Fast disk, cold, to the same disk", disk / "node", cold=True)
            if memory and roomy:
                bench.compare("Fast disk, cold, to memory", memory, cold=True)
            remove_tree(disk / "volume")
            near = make_volume(disk / "volume", slow_megabytes)
            with _slow(near, disk) as far:
                title = f"Slow volume ({LATENCY_MS} ms a call, {HANDLE_MBS} MB/s a handle), cold, to disk"
                Bench(far, slow_megabytes, rounds, behind=near).compare(title, disk / "node", cold=True)
        finally:
            if memory:
                remove_tree(memory)


class Bench:
    """One snapshot on one volume, copied by each tool in turn.

    Args:
        behind: the directory that the volume shows, where it can not be written itself.
    """

    def __init__(self, volume: Path, megabytes: int, rounds: int, behind: Path | None = None) -> None:
        self._volume, self._behind = volume, behind or volume
        self._megabytes, self._rounds = megabytes, rounds

    def compare(self, title: str, target: Path, *, cold: bool) -> None:
        source = Layout(self._volume).snapshot("model", "bench/model", COMMIT)
        path = Layout(self._volume).relative(source)
        slipway = [sys.executable, "-c", _HYDRATE, str(self._volume), path]
        commands = {"cp -a": ["cp", "-a", str(source)], "slipway, verified": slipway}
        commands |= {"rsync -a": ["rsync", "-a", f"{source}/"], "rclone copy": ["rclone", "copy", str(source)]}
        found = {name: [path, *words[1:]] for name, words in commands.items() if (path := tool(words[0]))}
        left_out = sorted(commands.keys() - found.keys())
        if site := site_packages():
            script = str(Path(__file__).with_name("volume_cache.py"))
            cache = [sys.executable, script, str(site)]
            self._keep_for_volume_cache(cache, target / "copy")
            found["RunPod's VolumeCache"] = [*cache, "hydrate", str(self._volume)]
        variants = {name: self._take(words, target, cold=cold) for name, words in found.items()}
        compare(title, interleaved(variants, self._rounds), "cp -a", self._megabytes * 2**20)
        if left_out:
            print(f"\nNot there: {', '.join(left_out)}.")

    def _take(self, words: list[str], target: Path, *, cold: bool) -> Callable[[int], Sample]:
        def once(number: int) -> Sample:
            if target.exists():
                remove_tree(target)
            target.mkdir(parents=True)
            if cold:
                os.sync()
                Path("/proc/sys/vm/drop_caches").write_text("3")
            sample = measure([*words, str(target / "copy")], env={"PYTHONPATH": str(Path.cwd())})
            load(target / "copy")
            return sample

        return once

    def _keep_for_volume_cache(self, cache: list[str], copy: Path) -> None:
        """Have the volume hold what it hydrates: the same files, as warm or cold as for the others."""
        snapshot = Layout(self._behind).snapshot("model", "bench/model", COMMIT)
        if copy.parent.exists():
            remove_tree(copy.parent)
        copy.parent.mkdir(parents=True)
        subprocess.run(["cp", "-a", str(snapshot), str(copy)], check=True)
        done = subprocess.run([*cache, "sync", str(self._behind), str(copy)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"VolumeCache could not sync:\n{done.stderr}")
        mirror = self._behind / ".cache/bench/big" / str(copy.resolve()).lstrip("/")
        for file in mirror.iterdir():
            file.unlink()
            file.hardlink_to(snapshot / file.name)


def load(copy: Path) -> None:
    """Read a copy as a trainer would, offline, in a process of its own.

    Raises:
        RuntimeError: it can not be loaded.
    """
    by_name = copy / "weights"  # only Slipway's is a Hub cache
    directory = by_name / f"models--bench--model/snapshots/{COMMIT}" if by_name.exists() else copy
    env = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(by_name)}
    words = [sys.executable, "-c", _LOAD, str(directory), "bench/model" if by_name.exists() else ""]
    done = subprocess.run([*words, COMMIT], env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{directory} can not be loaded:\n{done.stderr}")


_HYDRATE = """
import sys
from pathlib import Path
from tasks.pod.hydrate import place_weights
from tasks.pod.layout import Layout
volume, path, scratch = sys.argv[1:]
asked = {"weights": {"placement": "hydrate"}}
plan = {"run": "bench", "request": asked, "resolved": {"weights": {"path": path}}}
place_weights(Layout(Path(volume)), plan, 1, Path(scratch))
"""
"""What a job's init command does for its weights."""

_LOAD = """
import json, sys
from pathlib import Path
from safetensors import safe_open
directory, name, commit = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
json.loads((directory / "config.json").read_text())
for tensor, file in json.loads((directory / "model.safetensors.index.json").read_text())["weight_map"].items():
    with safe_open(directory / file, "numpy") as shard:
        part = shard.get_slice(tensor)
        part[:1000], part[part.get_shape()[0] - 1000 :]
if name:
    from huggingface_hub import snapshot_download
    assert Path(snapshot_download(name, revision=commit)) == directory
"""


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


def _free(place: Path) -> int:
    stat = os.statvfs(place)
    return stat.f_bavail * stat.f_frsize


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
    main(*(int(word) for word in sys.argv[1:]))
