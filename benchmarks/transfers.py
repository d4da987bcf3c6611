"""`slipway volumes put` and `get` on Kubernetes beside what one would use instead, and the time to a shell.

`python -m benchmarks.transfers [MIB]`, 512 by default, on the test cluster (see docs/kubernetes.md): one file of random
bytes, and as many of 64 KiB as make a sixteenth of that. Interleaved, three rounds, medians. `kubectl cp` and `tar`
through `kubectl exec` prove nothing of what arrived. `rsync` through it, where this machine has one: it is copied into
the session with its libraries, because our image has none.
"""

import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from blocks.clusters.kubernetes.cluster import KubernetesCluster
from flows.cli.transfer import download, upload
from tests.cluster.access import TestCluster, owner_of_its_own, start

ROUNDS = 3
MIB = 1 << 20


def main(mib: int) -> None:
    kubernetes = start()
    with owner_of_its_own(kubernetes) as owner, tempfile.TemporaryDirectory() as folder:
        cluster = kubernetes.connect(owner)
        cluster.volumes.create("shelf", 1 << 40)
        print(f"time to a shell, from nothing     {_seconds(lambda: _shell(cluster)):.1f} s")
        session = cluster.sessions.open("shelf")
        print(f"time to a shell, session is open  {_seconds(lambda: _shell(cluster)):.1f} s\n")
        for what, count, size in (("one-file", 1, mib * MIB), ("small-files", mib * MIB // 16 // 65536, 65536)):
            source = _write(Path(folder) / what, count, size)
            print(f"{what}: {count} of {size / MIB:g} MiB")
            _compare(cluster, kubernetes, session.id, source, count * size)


def _compare(cluster: KubernetesCluster, kubernetes: TestCluster, pod: str, source: Path, size: int) -> None:
    kubectl = [
        str(Path(kubernetes.kubeconfig).parent.parent / "bin" / "kubectl"),
        *("--kubeconfig", kubernetes.kubeconfig, "-n", cluster.owner),
    ]
    work = source.parent

    def ours_in(there: str) -> None:
        upload(cluster, "shelf", source, there, replace=False)

    def ours_out(there: str) -> None:
        download(cluster, "shelf", there, work / f"out-{there}", replace=False)

    def cp_in(there: str) -> None:
        subprocess.run([*kubectl, "cp", str(source), f"{pod}:/volume/{there}"], check=True, capture_output=True)

    def cp_out(there: str) -> None:
        target = work / f"out-{there}"
        subprocess.run([*kubectl, "cp", f"{pod}:/volume/{there}", str(target)], check=True, capture_output=True)

    def tar_in(there: str) -> None:
        command = f"tar -C {work} -cf - {source.name} | {' '.join(kubectl)} exec -i {pod} -- sh -c "
        command += f"'mkdir /volume/{there} && tar -C /volume/{there} -xf -'"
        subprocess.run(command, shell=True, check=True, capture_output=True)

    def tar_out(there: str) -> None:
        (work / f"out-{there}").mkdir()
        command = f"{' '.join(kubectl)} exec {pod} -- tar -C /volume/{there} -cf - . | tar -C {work}/out-{there} -xf -"
        subprocess.run(command, shell=True, check=True, capture_output=True)

    ways: dict[str, tuple[Callable[[str], None], Callable[[str], None]]] = {
        "slipway": (ours_in, ours_out),
        "kubectl cp": (cp_in, cp_out),
        "tar | kubectl exec": (tar_in, tar_out),
    }
    if rsync := _rsync(kubectl, pod, work):

        def rsync_in(there: str) -> None:
            what = f"{source}/" if source.is_dir() else str(source)
            subprocess.run([*rsync, what, f"{pod}:/volume/{there}"], check=True, capture_output=True)

        def rsync_out(there: str) -> None:
            what = f"{pod}:/volume/{there}" + ("/" if source.is_dir() else "")
            subprocess.run([*rsync, what, str(work / f"out-{there}")], check=True, capture_output=True)

        ways["rsync | kubectl exec"] = (rsync_in, rsync_out)
    taken: dict[str, tuple[list[float], list[float]]] = {way: ([], []) for way in ways}
    for number in range(ROUNDS):
        for way, (put, get) in ways.items():
            there = f"{work.name}-{way.split()[0]}-{number}"
            taken[way][0].append(_seconds(lambda put=put, there=there: put(there)))  # type: ignore[misc]
            taken[way][1].append(_seconds(lambda get=get, there=there: get(there)))  # type: ignore[misc]
            subprocess.run(["rm", "-rf", str(work / f"out-{there}")], check=True)
    for way, (puts, gets) in taken.items():
        rates = [size / MIB / statistics.median(times) for times in (puts, gets)]
        print(f"  {way:20} put {rates[0]:6.0f} MiB/s   get {rates[1]:6.0f} MiB/s")


def _rsync(kubectl: list[str], pod: str, work: Path) -> list[str]:
    """How rsync is called so that its other end runs in a pod, into which it is copied; nothing where there is none."""
    program = shutil.which("rsync")
    if program is None:
        return []
    bench = work / "rsync"
    bench.mkdir()
    told = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    libraries = re.findall(r"(/\S+) \(0x", told)
    for path in (program, *libraries):
        shutil.copy(path, bench)
    (loader,) = [Path(path).name for path in libraries if Path(path).name.startswith("ld-linux")]
    there = f"/scratch/rsync-{work.name}"
    subprocess.run([*kubectl, "cp", str(bench), f"{pod}:{there}"], check=True, capture_output=True)
    shell = bench / "into-pod"  # is called as ssh is: host, command
    shell.write_text(f'#!/bin/sh\npod=$1; shift\nexec {shlex.join(kubectl)} exec -i "$pod" -- sh -c "$*"\n')
    shell.chmod(0o755)
    far = f"{there}/{loader} --library-path {there} {there}/rsync"
    return [program, "-rlpt", "--blocking-io", f"--rsh={shell}", f"--rsync-path={far}"]


def _shell(cluster: KubernetesCluster) -> None:
    session = cluster.sessions.open("shelf", reuse=True)
    terminal = cluster.sessions.attach(session.id, ["true"], (24, 80))
    while terminal.read() is not None:
        pass
    terminal.wait()
    cluster.sessions.leave(session)


def _write(place: Path, count: int, size: int) -> Path:
    place.mkdir()
    source = place / "data"
    if count == 1:
        source.write_bytes(b"".join(os.urandom(MIB) for _ in range(size // MIB)))
        return source
    source.mkdir()
    for number in range(count):
        (source / f"{number:05}").write_bytes(os.urandom(size))
    return source


def _seconds(work: Callable[[], None]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 512)
