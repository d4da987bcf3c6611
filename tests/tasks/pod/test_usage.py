import os
import subprocess
from pathlib import Path

from tasks.pod.layout import Layout
from tasks.pod.usage import room, usage


def test_usage_agrees_with_du(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "f").write_bytes(os.urandom(100_000))
    os.link(tmp_path / "a" / "f", tmp_path / "a" / "b" / "same")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    (tmp_path / "loop").symlink_to(".")

    answer = usage(Layout(tmp_path), {})

    said = subprocess.run(["du", "-sk", tmp_path], capture_output=True, text=True, check=True)
    assert -(-answer["used_bytes"] // 1024) == int(said.stdout.split()[0])
    assert 0 < answer["disk_free_bytes"] <= answer["disk_bytes"]


def test_what_is_full_first_decides_how_much_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(os.urandom(100_000))
    used, disk = usage(Layout(tmp_path), {})["used_bytes"], os.statvfs(tmp_path)

    small = room(Layout(tmp_path), {"size_bytes": 1_000_000})
    assert small == {"free_bytes": 1_000_000 - used, "first_full": "volume"}
    assert room(Layout(tmp_path), {"size_bytes": 10})["free_bytes"] == 0
    large = room(Layout(tmp_path), {"size_bytes": disk.f_blocks * disk.f_frsize})
    assert large["first_full"] == "disk" and large["free_bytes"] > 1_000_000
