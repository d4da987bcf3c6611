"""Weights on the node: exact copies or a loud error, and a cache that neither loses nor copies twice what is shared."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tasks.pod import copying, hydrate, pieces
from tasks.pod.copying import Pace, Wanted, copy, measure
from tasks.pod.errors import ChangedError, NoSpaceError, PodError
from tasks.pod.hydrate import place_weights, read_source
from tasks.pod.layout import Layout
from tasks.pod.node_cache import Lease, NodeCache
from tasks.pod.pieces import PieceHasher
from tests.tasks.pod.staging.conftest import write_model

COMMIT = "c" * 40
FAR = Pace(1.0, 16, 4 << 20, within=True)
NEAR = Pace(0.0, 2, 256 << 10, within=False)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (copying, pieces):
        monkeypatch.setattr(module, "PIECE", 100_000)
    monkeypatch.setattr("tasks.pod.node_cache._MARGIN", 0)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A volume with a staged snapshot of `org/tiny`, and the same weights put by hand as models/mine."""
    layout = Layout(tmp_path / "volume")
    snapshot = write_model(layout.snapshot("model", "org/tiny", COMMIT))
    write_model(layout.root / "models" / "mine")
    files = [path for path in sorted(snapshot.rglob("*")) if path.is_file()]
    record = {"repo_type": "model", "repo": "org/tiny", "commit": COMMIT, "path": layout.relative(snapshot)}
    manifest = layout.snapshot_manifest("model", "org/tiny", COMMIT)
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps(record | {"files": [_entry(snapshot, path) for path in files], "staged_at": 0}))
    tree = {"format_version": 1, "files": {_name(snapshot, path): {"size": path.stat().st_size} for path in files}}
    (layout.repo("model", "org/tiny") / "trees").mkdir()
    (layout.repo("model", "org/tiny") / "trees" / f"{COMMIT}.json").write_text(json.dumps(tree))
    return layout


def _name(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def _entry(root: Path, path: Path) -> dict[str, Any]:
    hasher = PieceHasher()
    hasher.update(path.read_bytes())
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"path": _name(root, path), "size": path.stat().st_size, "sha256": sha256, "xxh3": hasher.hexdigest()}


def _plan(layout: Layout, placement: str, path: str | None = None, **more: Any) -> dict[str, Any]:
    where = path or layout.relative(layout.snapshot("model", "org/tiny", COMMIT))
    weights = {"placement": placement, **more}
    return {"run": "r", "request": {"weights": weights}, "resolved": {"weights": {"path": where}}}


def _same(one: Path, other: Path) -> bool:
    return {_name(one, p): p.read_bytes() for p in one.rglob("*") if p.is_file()} == {
        _name(other, p): p.read_bytes() for p in other.rglob("*") if p.is_file()
    }


# the fast hash


@given(st.binary(max_size=500), st.lists(st.integers(1, 60), max_size=20))
def test_a_hash_does_not_depend_on_how_the_bytes_came(data: bytes, cuts: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", 64)
        whole, cut, rest = PieceHasher(), PieceHasher(), data
        whole.update(data)
        for length in cuts:
            cut.update(rest[:length])
            rest = rest[length:]
        cut.update(rest)
        digests = [xxhash.xxh3_128_digest(data[at : at + 64]) for at in range(0, len(data), 64)]
        assert whole.hexdigest() == cut.hexdigest() == pieces.combine(digests)


# copies


@pytest.mark.parametrize("pace", [FAR, NEAR, None])
@pytest.mark.parametrize("size", [0, 1, 99_999, 100_000, 100_001, 350_000])
def test_a_copy_is_exact_whatever_its_size_and_pace(tmp_path: Path, size: int, pace: Pace | None) -> None:
    source = tmp_path / "a"
    source.write_bytes(os.urandom(size))
    wanted = Wanted(
        "sub/a", source, size, **{k: v for k, v in _entry(tmp_path, source).items() if k in ("xxh3", "sha256")}
    )

    copy([wanted], tmp_path / "copy", sha256=True, pace=pace)

    assert (tmp_path / "copy/sub/a").read_bytes() == source.read_bytes()


@pytest.mark.parametrize("sha256", [False, True])
@pytest.mark.parametrize("what", ["flipped", "short", "long"])
def test_bytes_that_were_not_staged_are_loud(layout: Layout, tmp_path: Path, what: str, sha256: bool) -> None:
    snapshot = layout.snapshot("model", "org/tiny", COMMIT)
    shard = sorted(snapshot.glob("*.safetensors"))[1]
    content = shard.read_bytes()
    damaged = {"flipped": content[:-9] + b"\x00" + content[-8:], "short": content[:-1], "long": content + b"x"}[what]
    shard.write_bytes(damaged)

    with pytest.raises(ChangedError, match=shard.name):
        place_weights(layout, _plan(layout, "hydrate", fallback=True, sha256=sha256), 1, tmp_path / "scratch")

    assert not any((tmp_path / "scratch").glob("*"))


def test_a_far_source_is_read_in_many_ranges_at_once_and_a_near_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(bytes(1000))
    files = [Wanted("a", tmp_path / "a", 1000)]
    monkeypatch.setattr(copying, "_SLOW", 0.4)  # seconds, where the thousandth part is usual: this machine may be busy
    near = measure(files)
    assert not near.within
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *arguments: (time.sleep(0.5), pread(*arguments))[1])

    far = measure(files)
    assert far.within and far.workers == 16 and far.read > near.read


# into scratch


@pytest.fixture(params=["btrfs", "xfs"])
def sharing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A directory on a file system on which files can share their bytes."""
    make = shutil.which(f"mkfs.{request.param}") or shutil.which(f"/usr/sbin/mkfs.{request.param}")
    if make is None or os.geteuid():
        pytest.skip(f"needs root and mkfs.{request.param}")
    image, where = tmp_path / "image", tmp_path / "sharing"
    with image.open("wb") as out:
        out.truncate(320 << 20)
    where.mkdir()
    subprocess.run([make, "-q", image], check=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, where], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"{request.param} can not be mounted here: {mounted.stderr}")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", where], check=True)


@pytest.mark.parametrize("pace", [NEAR, FAR])
def test_copies_on_a_file_system_that_can_share_their_bytes_and_are_proven_all_the_same(
    sharing: Path, pace: Pace
) -> None:
    source, size = sharing / "source", 20 << 20
    content = os.urandom(size)
    source.write_bytes(content)
    wanted = Wanted("a", source, size, pieces_hash(content), hashlib.sha256(content).hexdigest())
    before = _taken(sharing)

    copy([wanted, Wanted("empty", _empty(sharing), 0)], sharing / "copy", pace=pace, sha256=True)

    assert _taken(sharing) - before < size // 10
    with source.open("r+b") as out:
        out.write(b"changed")
    assert (sharing / "copy/a").read_bytes() == content, "what is written to one is not in the other"
    for damaged, told in (
        (b"changed" + content[7:], "other bytes"),
        (content[:-1], "ended early"),
        (content + b"x", "is longer"),
    ):
        source.write_bytes(damaged)
        with pytest.raises(ChangedError, match=told):
            copy([wanted], sharing / told, pace=pace)


def pieces_hash(content: bytes) -> str:
    hasher = PieceHasher()
    hasher.update(content)
    return hasher.hexdigest()


def _empty(where: Path) -> Path:
    (where / "empty").touch()
    return where / "empty"


def _taken(where: Path) -> int:
    os.sync()
    stat = os.statvfs(where)
    return (stat.f_blocks - stat.f_bfree) * stat.f_frsize


def test_in_place_is_in_place(layout: Layout, tmp_path: Path) -> None:
    directory, report = place_weights(layout, _plan(layout, "volume"), 1, tmp_path)

    assert directory == layout.snapshot("model", "org/tiny", COMMIT)
    assert (report["read_from"], report["bytes"]) == ("volume", 0)


@pytest.mark.parametrize("path", [None, "models/mine"])
def test_a_hydrated_copy_is_the_weights_and_says_what_it_took(layout: Layout, tmp_path: Path, path: str | None) -> None:
    plan = _plan(layout, "hydrate", path)

    directory, report = place_weights(layout, plan, 1, tmp_path / "scratch")

    source = layout.resolve(plan["resolved"]["weights"]["path"])
    assert directory.is_relative_to(tmp_path / "scratch") and _same(directory, source)
    assert report["bytes"] == sum(file.stat().st_size for file in source.rglob("*") if file.is_file())
    assert report["checked"] == ("xxh3" if path is None else "sizes and headers")
    assert (report["asked"], report["read_from"], report["why"]) == ("hydrate", "hydrate", "")


def test_a_hydrated_copy_loads_offline_by_path_and_by_name(layout: Layout, tmp_path: Path) -> None:
    directory, _ = place_weights(layout, _plan(layout, "hydrate"), 1, tmp_path / "scratch")
    code = (
        "import sys; from pathlib import Path; from huggingface_hub import snapshot_download as s\n"
        f"assert s('org/tiny', revision='{COMMIT}') == sys.argv[1]\n"
        "from safetensors.numpy import load_file\n"
        "print(sum(len(load_file(f)) for f in Path(sys.argv[1]).glob('*.safetensors')))"
    )
    env = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path / "scratch" / "weights")}

    done = subprocess.run([sys.executable, "-c", code, directory], env=env, capture_output=True, text=True)

    assert (done.returncode, done.stdout.strip()) == (0, "3"), done.stderr


def test_weights_that_could_not_be_loaded_are_loud(layout: Layout, tmp_path: Path) -> None:
    (layout.root / "models/mine/model-00002-of-00003.safetensors").unlink()

    with pytest.raises(ChangedError, match="model-00002"):
        place_weights(layout, _plan(layout, "hydrate", "models/mine"), 1, tmp_path / "scratch")


@pytest.mark.parametrize("placement", ["hydrate", "node"])
def test_without_room_it_stops_unless_a_fallback_was_asked_for(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, placement: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hydrate, "_require_room", _no_room)
    monkeypatch.setenv("SLIPWAY_NODE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SLIPWAY_NODE_CACHE_BYTES", "1000")
    monkeypatch.setenv("SLIPWAY_ALIVE", str(tmp_path / "alive"))

    with pytest.raises(NoSpaceError, match=r"full|limited to 1000 bytes"):
        place_weights(layout, _plan(layout, placement), 1, tmp_path / "scratch")
    directory, report = place_weights(layout, _plan(layout, placement, fallback=True), 1, tmp_path / "scratch")

    assert directory == layout.snapshot("model", "org/tiny", COMMIT)
    assert (report["asked"], report["read_from"]) == (placement, "volume") and report["why"]
    assert "in place" in capsys.readouterr().err


def _no_room(place: Path, needed: int) -> None:
    raise NoSpaceError("It is full.", "")


# the node's cache


@contextmanager
def _living(path: Path) -> Iterator[Lease]:
    """A job that lives: somebody holds its file."""
    with path.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield Lease(path.stem, path)


def _filler(size: int, calls: list[str] | None = None) -> Callable[[Path], None]:
    def fill(root: Path) -> None:
        if calls is not None:
            calls.append(root.name)
        (root / "w").write_bytes(bytes(size))

    return fill


def _keys(cache: NodeCache) -> list[str]:
    return [entry["key"] for entry in cache.entries()]


def test_the_second_run_finds_what_the_first_one_copied(tmp_path: Path) -> None:
    cache, calls = NodeCache(tmp_path / "cache", 1000), list[str]()

    with _living(tmp_path / "one") as one, _living(tmp_path / "two") as two:
        first = cache.take("m", 400, one, _filler(400, calls))
        second = cache.take("m", 400, two, _filler(400, calls))
        assert cache.entries()[0]["in_use"] == ["one", "two"]

    assert (first[1], second[1], calls) == (False, True, ["m"])
    assert first[0] == second[0] and (first[0] / "w").stat().st_size == 400
    assert cache.entries()[0]["in_use"] == []


def test_ten_runs_at_once_copy_once(tmp_path: Path) -> None:
    cache, calls = NodeCache(tmp_path / "cache", 1000), list[str]()

    def fill(root: Path) -> None:
        time.sleep(0.1)
        _filler(400, calls)(root)

    with _living(tmp_path / "r") as lease, ThreadPoolExecutor(10) as pool:
        taken = list(pool.map(lambda _: cache.take("m", 400, lease, fill), range(10)))

    assert calls == ["m"] and sum(there for _, there in taken) == 9


def test_the_least_recently_used_goes_and_what_is_in_use_stays(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 1000)
    with _living(tmp_path / "user") as user:
        cache.take("used", 300, user, _filler(300))
        for number, key in enumerate(("old", "new")):
            with _living(tmp_path / key) as lease:
                entry, _ = cache.take(key, 300, lease, _filler(300))
            os.utime(entry / "entry.json", (number + 10, number + 10))
        os.utime(tmp_path / "cache/entries/used/entry.json", (1, 1))  # the oldest of all

        with _living(tmp_path / "last") as last:
            cache.take("last", 300, last, _filler(300))

            assert sorted(_keys(cache)) == ["last", "new", "used"]
            with _living(tmp_path / "x") as x, pytest.raises(NoSpaceError, match=r"in use by last, user"):
                cache.take("large", 800, x, _filler(800))


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 1000)

    def fails(root: Path) -> None:
        (root / "w").write_bytes(bytes(10))
        raise ChangedError("wrong bytes", "")

    with _living(tmp_path / "r") as lease:
        with pytest.raises(ChangedError):
            cache.take("m", 10, lease, fails)
        assert _keys(cache) == [] and not list((tmp_path / "cache/arriving").iterdir())
        assert cache.take("m", 10, lease, _filler(10))[1] is False


def test_what_a_killed_copier_left_counts_no_more(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 1000)
    left = tmp_path / "cache/arriving/dead"
    left.mkdir()
    (left / "w").write_bytes(bytes(900))
    (tmp_path / "cache/arriving/dead.json").write_text('{"bytes": 900}')

    with _living(tmp_path / "r") as lease:
        cache.take("m", 800, lease, _filler(800))

    assert not left.exists()


def test_an_entry_that_somebody_touched_is_copied_again(tmp_path: Path) -> None:
    cache, calls = NodeCache(tmp_path / "cache", 1000), list[str]()
    with _living(tmp_path / "r") as lease:
        entry, _ = cache.take("m", 10, lease, _filler(10, calls))
        (entry / "w").write_bytes(bytes(9))
        entry, there = cache.take("m", 10, lease, _filler(10, calls))

    assert not there and len(calls) == 2 and (entry / "w").stat().st_size == 10


def test_equal_weights_have_one_entry_and_others_another(layout: Layout) -> None:
    path = layout.relative(layout.snapshot("model", "org/tiny", COMMIT))
    before = read_source(layout, path).key
    assert read_source(layout, path).key == before
    os.utime(layout.root / "models/mine/config.json", (1, 1))
    mine = read_source(layout, "models/mine").key
    os.utime(layout.root / "models/mine/config.json", (2, 2))
    assert len({before, mine, read_source(layout, "models/mine").key}) == 3


def test_a_node_without_a_cache_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLIPWAY_NODE_CACHE", raising=False)
    with pytest.raises(PodError, match="no cache"):
        NodeCache.here()
