import errno
import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from tasks.pod.area import is_owned, require_space, staging_area
from tasks.pod.errors import NoSpaceError
from tasks.pod.layout import Layout
from tasks.pod.staging import dataset_identity, identity, snapshot_identity


@pytest.fixture(params=["flock", "no flock"])
def locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With flock, and as on a file system that has none (Lustre without it answers ENOSYS)."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    if request.param == "no flock":
        monkeypatch.setattr(fcntl, "flock", refuse)
    kind: str = request.param
    return kind


def test_an_area_has_one_owner_at_a_time(layout: Layout, locks: str) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        with staging_area(layout, "a"):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.05)
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == [1] * 5


def test_others_see_whether_it_is_owned(layout: Layout, locks: str) -> None:
    with staging_area(layout, "a") as area:
        assert is_owned(area)
    assert not is_owned(area)


def test_an_owner_that_died_without_flock_is_followed(
    layout: Layout, locks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = layout.staging("a") / "owner"
    owner.parent.mkdir(parents=True)
    owner.touch()
    os.utime(owner, (1, 1))

    with staging_area(layout, "a") as area:
        assert is_owned(area)


def test_space_counts_what_is_free_for_us(tmp_path: Path) -> None:
    stat = os.statvfs(tmp_path)
    require_space(tmp_path, 0)
    with pytest.raises(NoSpaceError, match=str(stat.f_blocks * stat.f_frsize)):
        require_space(tmp_path, stat.f_blocks * stat.f_frsize)


def test_identities_are_short_readable_and_differ() -> None:
    long = snapshot_identity("model", "org/" + "x" * 90, "a" * 40)
    assert len(long) <= 52 and long.startswith("model-org-xxx")
    assert snapshot_identity("model", "a/b-c", "a" * 40) != snapshot_identity("model", "a-b/c", "a" * 40)
    assert identity("a", "b-c") != identity("a-b", "c")
    folder = {"kind": "folder", "path": "/a"}
    assert dataset_identity("d", "v1", folder) == dataset_identity("d", "v1")
    assert dataset_identity("d", None, folder) != dataset_identity("d", None, {"kind": "folder", "path": "/b"})
