"""Killed jobs, many jobs at once, full disks, read-only mounts, stalls: what staging has to live through."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.pod import snapshots, staging
from tasks.pod.errors import NoSpaceError
from tasks.pod.layout import Layout
from tests.deployments.hub.faulty import FaultyHub, Stall, Status
from tests.tasks.pod.staging.conftest import REPOSITORY, Programs, write_model
from tests.tasks.pod.staging.test_snapshots import SHARD, files_below, offline

Pinned = Callable[..., dict[str, Any]]


def wait_for(condition: Callable[[], bool], seconds: float = 200) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def kill(job: "subprocess.Popen[str]") -> None:
    job.send_signal(signal.SIGKILL)
    job.communicate()


def test_a_killed_job_is_continued_by_range(
    programs: Programs, hub: FaultyHub, layout: Layout, served: Path, pinned: Pinned
) -> None:
    asked = pinned()
    name = staging.snapshot_identity("model", "org/tiny", asked["commit"])
    total = sum(map(len, files_below(served).values()))
    hub.rate = 500_000
    job = programs.start("snapshots.stage", asked)
    wait_for(lambda: sum(hub.served.values()) > total // 2)
    kill(job)
    assert staging.progress(layout, {})[name]["state"] == "interrupted"
    assert not snapshots.state(layout, asked)["staged"]
    assert not list(layout.root.glob("hub/*/snapshots/*"))

    hub.rate = None
    before = sum(hub.served.values())
    answer = programs.run("snapshots.stage", asked)["ok"]

    assert files_below(layout.root / answer["path"]) == files_below(served)
    again = sum(hub.served.values()) - before
    in_flight = 4 * (1 << 18)  # what four connections may hold in buffers
    assert again < total - total // 2 + in_flight
    assert any(asked_range for asked_range, _ in hub.gets(".safetensors"))


@pytest.mark.parametrize("moment", [0.2, 0.4, 0.6])
def test_a_job_killed_at_any_moment_leaves_nothing_half_published(
    programs: Programs, hub: FaultyHub, layout: Layout, served: Path, pinned: Pinned, moment: float
) -> None:
    asked = pinned()
    job = programs.start("snapshots.stage", asked)
    time.sleep(moment)
    kill(job)
    for path in layout.root.glob("hub/*/snapshots/*"):
        assert files_below(path) == files_below(served)

    assert programs.run("snapshots.stage", asked)["ok"]["staged"]
    assert files_below(layout.snapshot("model", "org/tiny", asked["commit"])) == files_below(served)


def test_a_job_killed_between_publishing_and_its_manifest_is_finished_without_the_hub(
    layout: Layout, hub: FaultyHub, pinned: Pinned
) -> None:
    asked = pinned()
    snapshots.stage(layout, asked)
    manifest = layout.snapshot_manifest("model", "org/tiny", asked["commit"])
    area = layout.staging(staging.snapshot_identity("model", "org/tiny", asked["commit"]))
    manifest.rename(area / "manifest.json")
    shutil.rmtree(layout.repo("model", "org/tiny") / "refs")
    hub.requests.clear()

    from tasks.pod.resolve import resolve

    asked["files"] = resolve(layout, asked | {"revision": asked["commit"]})["files"]
    answer = snapshots.stage(layout, asked)

    assert answer["staged"] and answer["fetched_bytes"] == 0 and not hub.gets(SHARD)
    assert snapshots.list_staged(layout, {})["snapshots"][0]["refs"] == ["main"]


DYING = """
import os, pathlib, sys
steps = int(sys.argv.pop(1))
def dying(name, real):
    def step(path, other):
        global steps
        published = str(path if name == "hardlink_to" else other)
        if not any(ours in published for ours in ("/parts/", "/tree/", "progress.json")):
            steps -= 1
            if steps < 0:
                os._exit(9)
        return real(path, other)
    return step
for name in ("rename", "replace", "hardlink_to"):
    setattr(pathlib.Path, name, dying(name, getattr(pathlib.Path, name)))
from tasks.pod import program
code = program.main(sys.argv)
os._exit(code)
"""


def test_a_job_that_dies_before_any_step_of_publishing_is_finished_by_the_next(
    hub: FaultyHub, served: Path, pinned: Pinned, tmp_path: Path
) -> None:
    """Steps: cache tag, tree, draft of the manifest, snapshot, two refs, manifest."""
    asked, codes = pinned(), []
    while 0 not in codes:
        layout = Layout(tmp_path / f"volume{len(codes)}")
        layout.root.mkdir()
        died = subprocess.run(
            [sys.executable, "-c", DYING, str(len(codes)), "snapshots.stage", json.dumps(asked)],
            cwd=REPOSITORY,
            env=os.environ | {"SLIPWAY_VOLUME": str(layout.root)},
            capture_output=True,
        )
        codes.append(died.returncode)
        whole = layout.snapshot("model", "org/tiny", asked["commit"])
        assert not whole.exists() or files_below(whole) == files_below(served)
        assert snapshots.state(layout, asked)["staged"] == (died.returncode == 0)
        hub.served.clear()

        assert snapshots.stage(layout, asked)["staged"]

        assert not hub.served
        assert files_below(whole) == files_below(served)
        assert [entry["refs"] for entry in snapshots.list_staged(layout, {})["snapshots"]] == [["main"]]
        assert not list(layout.hub.rglob(".*"))
    assert len(codes) > 7 and set(codes[:-1]) == {9}


def test_ten_jobs_at_once_cause_one_download(
    programs: Programs, hub: FaultyHub, layout: Layout, served: Path, pinned: Pinned
) -> None:
    hub.rate = 2_000_000
    jobs = [programs.start("snapshots.stage", pinned()) for _ in range(10)]

    answers = [programs.answer(job) for job in jobs]

    assert all(answer["ok"]["staged"] for answer in answers)
    assert sum(hub.served.values()) == sum(map(len, files_below(served).values()))


def test_a_stalled_connection_is_replaced(
    programs: Programs, hub: FaultyHub, served: Path, layout: Layout, pinned: Pinned
) -> None:
    programs.env["HF_HUB_DOWNLOAD_TIMEOUT"] = "3"
    hub.fail(SHARD, Stall(300_000, 3600))

    answer = programs.run("snapshots.stage", pinned())["ok"]

    assert files_below(layout.root / answer["path"]) == files_below(served)
    assert next(asked for asked, _ in hub.gets(SHARD)) is None
    assert len(hub.gets(SHARD)) >= 2


def test_a_hub_that_goes_away_keeps_what_arrived(
    programs: Programs, hub: FaultyHub, layout: Layout, served: Path, pinned: Pinned
) -> None:
    hub.always[f"/{SHARD}"] = Status(502)

    answer = programs.run("snapshots.stage", pinned())

    assert answer["error"]["kind"] == "UnreachableError" and "502" in answer["error"]["what"]
    hub.always.clear()
    hub.served.clear()
    assert programs.run("snapshots.stage", pinned())["ok"]["staged"]
    assert sum(hub.served.values()) == (served / SHARD).stat().st_size


def test_a_job_that_asks_for_a_file_that_is_gone_says_so(
    programs: Programs, hub: FaultyHub, served: Path, layout: Layout, pinned: Pinned
) -> None:
    from tasks.pod.resolve import resolve

    asked = pinned()
    asked["files"] = resolve(layout, asked)["files"]
    (served / "config.json").write_text("{}")

    answer = programs.run("snapshots.stage", asked)

    assert answer["error"]["kind"] == "NotThereError" and asked["commit"] in answer["error"]["what"]


# what needs mounts


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Layout]:
    """A volume of 24 MB."""
    where = tmp_path / "small"
    where.mkdir()
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("a small disk needs root on Linux (mount)")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", where], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"this machine does not let us mount: {mounted.stderr.decode().strip()}")
    yield Layout(where)
    subprocess.run(["umount", "-l", where], check=True)


def test_too_little_space_is_said_before_the_first_byte(small_disk: Layout, hub: FaultyHub, pinned: Pinned) -> None:
    (small_disk.root / "filler").write_bytes(bytes(10 << 20))

    with pytest.raises(NoSpaceError) as caught:
        snapshots.stage(small_disk, pinned())

    needed = sum(file.size for file in hub.repositories.commit("models", "org/tiny", "main").files.values())  # type: ignore[union-attr]
    assert str(needed) in caught.value.what and "13.0 MiB" in caught.value.what  # 24, less the filler and the reserve
    assert not hub.gets(".safetensors")


def test_a_disk_that_fills_up_keeps_what_arrived(
    small_disk: Layout, hub: FaultyHub, served: Path, pinned: Pinned
) -> None:
    write_model(served, shards=3, size=2_000_000)
    asked = pinned()
    hub.rate = 500_000
    job = Programs(small_disk).start("snapshots.stage", asked)
    wait_for(lambda: sum(hub.served.values()) > 2_000_000)
    filler = small_disk.root / "filler"
    with pytest.raises(OSError, match="No space"):
        filler.write_bytes(bytes(40 << 20))
    answer = Programs(small_disk).answer(job)

    assert answer["error"]["kind"] == "NoSpaceError" and "full" in answer["error"]["what"]
    assert not list(small_disk.root.glob("hub/*/snapshots/*"))
    filler.unlink()
    hub.served.clear()
    hub.rate = None
    again = Programs(small_disk).run("snapshots.stage", asked)["ok"]
    assert files_below(small_disk.root / again["path"]) == files_below(served)
    assert sum(hub.served.values()) < 5_000_000


def test_a_read_only_mount_is_read_offline(layout: Layout, pinned: Pinned, tmp_path: Path) -> None:
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("a read-only mount needs root on Linux")
    answer = snapshots.stage(layout, pinned())
    where = tmp_path / "read-only"
    where.mkdir()
    if subprocess.run(["mount", "--bind", "-o", "ro", layout.root, where], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount")
    try:
        if os.access(where, os.W_OK):
            subprocess.run(["mount", "-o", "remount,bind,ro", where], check=True)
        code = "import huggingface_hub as h; print(h.snapshot_download('org/tiny'))"
        assert offline(where / "hub", code) == str(where / answer["path"])
        assert snapshots.state(Layout(where), pinned())["staged"]
        assert staging.progress(Layout(where), {}) == {}
    finally:
        subprocess.run(["umount", "-l", where], check=True)


def test_staging_works_without_the_powers_of_root(hub: FaultyHub, served: Path, pinned: Pinned, layout: Layout) -> None:
    """A directory of mode 0555 can be moved by root only: the last step of publishing must not need that."""
    plain = shutil.which("setpriv")
    if plain is None or os.geteuid() != 0:
        pytest.skip("run as root, this test drops its capabilities with setpriv; otherwise every test is without them")

    def run() -> dict[str, Any]:
        program = [sys.executable, "-m", "tasks.pod.program", "snapshots.stage", json.dumps(pinned())]
        done = subprocess.run(
            [plain, "--bounding-set=-all", "--inh-caps=-all", *program],
            cwd=REPOSITORY,
            env=os.environ | {"SLIPWAY_VOLUME": str(layout.root)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])["ok"]
        return answer

    first = run()
    (served / "README.md").write_text("# newer\n")
    (layout.root / first["path"]).chmod(0o755)
    (layout.root / first["path"] / SHARD).unlink()
    second = run()

    assert second["fetched_bytes"] == len("# newer\n") + (served / SHARD).stat().st_size
    assert files_below(layout.root / second["path"]) == files_below(served)
