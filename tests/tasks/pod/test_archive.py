import io
import os
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.pod import archive, arriving, walk
from tasks.pod.errors import BadInputError, ChangedError, NotThereError


@pytest.fixture
def into(tmp_path: Path) -> Path:
    (tmp_path / "private").mkdir()
    return tmp_path / "private"


def packed(source: Path) -> bytes:
    out = io.BytesIO()
    archive.pack(source, out)
    return out.getvalue()


def unpacked(stream: bytes, into: Path) -> arriving.Unpacked:
    return arriving.unpack(io.BufferedReader(io.BytesIO(stream)), into)  # type: ignore[arg-type]


def described(root: Path) -> dict[str, tuple[int, int, bytes | str | None]]:
    found: dict[str, tuple[int, int, bytes | str | None]] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content: bytes | str | None = None
        if path.is_symlink():
            found[path.relative_to(root).as_posix()] = (0, 0, str(path.readlink()))
            continue
        if path.is_file():
            content = path.read_bytes()
        key = path.relative_to(root).as_posix()
        found[key] = (stat.S_IMODE(status.st_mode), status.st_mtime_ns, content)
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "a tree"
    (root / "-leading" / "deep er").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "-leading" / "deep er" / "ünï cödé 数据.jsonl").write_text("{}\n")
    (root / "-rf").write_bytes(b"x" * 3_000_001)
    (root / "zero").touch()
    (root / ("long" * 50)).write_text("long name")
    (root / "link").symlink_to("-leading/deep er")
    (root / "-rf").chmod(0o640)
    (root / "zero").chmod(0o755)
    os.utime(root / "-rf", (1_000_000_000, 1_234_567_890.123456))
    (root / "empty").chmod(0o555)
    os.utime(root / "-leading", (1_000_000_000, 1_000_000_000))
    return root


def test_a_tree_arrives_as_it_was(tree: Path, into: Path, tmp_path: Path) -> None:
    got = unpacked(packed(tree), into)
    arriving.place(got, tmp_path / "placed")

    assert described(tmp_path / "placed") == described(tree)
    assert (tmp_path / "placed").stat().st_mode == tree.stat().st_mode
    assert got.totals == archive.measure(tree)


def test_a_single_file_arrives_as_it_was(tmp_path: Path, into: Path) -> None:
    (tmp_path / "-a b").write_text("hello")
    (tmp_path / "-a b").chmod(0o600)

    arriving.place(unpacked(packed(tmp_path / "-a b"), into), tmp_path / "c")

    assert (tmp_path / "c").read_text() == "hello"
    assert (tmp_path / "c").stat().st_mode == (tmp_path / "-a b").stat().st_mode


def test_a_read_only_tree_can_be_placed(tree: Path, into: Path, tmp_path: Path) -> None:
    tree.chmod(0o555)

    arriving.place(unpacked(packed(tree), into), tmp_path / "placed")

    assert stat.S_IMODE((tmp_path / "placed").stat().st_mode) == 0o555
    (tmp_path / "placed").chmod(0o755)


def test_it_is_a_tar_stream_that_tar_understands(tree: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(packed(tree))) as tar:
        assert "tree/-rf" in tar.getnames()
    assert len(packed(tree)) % 10240 == 0


@pytest.mark.parametrize("link", ["/etc/passwd", "../outside", "-leading/../../outside", "nowhere"])
def test_a_link_that_leads_outside_or_nowhere_is_not_sent(tree: Path, tmp_path: Path, link: str) -> None:
    (tmp_path / "outside").write_text("secret")
    (tree / "bad").symlink_to(link)

    with pytest.raises(BadInputError, match="bad"):
        packed(tree)


def special(kind: str, at: Path) -> socket.socket | None:
    if kind == "pipe":
        os.mkfifo(at)
        return None
    here = socket.socket(socket.AF_UNIX)
    here.bind(os.path.relpath(at))
    return here


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_special_files_are_not_sent(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t").mkdir()
    monkeypatch.chdir(tmp_path)
    opened = special(kind, tmp_path / "t" / "odd")

    with pytest.raises(BadInputError, match="odd"):
        packed(tmp_path / "t")
    if opened:
        opened.close()


def test_names_with_control_characters_are_not_sent(tree: Path) -> None:
    (tree / "a\nb").touch()

    with pytest.raises(BadInputError):
        packed(tree)


def test_a_missing_file_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotThereError):
        packed(tmp_path / "missing")


def cuts(length: int) -> Iterator[int]:
    yield from range(0, length, 512)


def test_a_stream_that_ends_early_is_noticed_wherever_it_ends(tmp_path: Path) -> None:
    source = tmp_path / "s"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "f").write_bytes(b"x" * 2000)
    (source / "g").write_text("g")
    whole = packed(source)
    end = whole.rindex(b'{"files"') + 512
    for cut in cuts(end - 511):
        into = tmp_path / f"into{cut}"
        into.mkdir()
        with pytest.raises(ChangedError):
            unpacked(whole[:cut], into)


def hostile(*members: tuple[str, bytes, str]) -> bytes:
    """A stream as somebody else could make it: (name, type, link or content)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w|") as tar:
        root = tarfile.TarInfo("tree")
        root.type = tarfile.DIRTYPE
        tar.addfile(root)
        for name, kind, text in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            if kind == tarfile.REGTYPE:
                member.size = len(text)
            else:
                member.linkname = text
            tar.addfile(member, io.BytesIO(text.encode()) if kind == tarfile.REGTYPE else None)
    return out.getvalue()


@pytest.mark.parametrize(
    "members",
    [
        (("../evil", tarfile.REGTYPE, "x"),),
        (("tree/../../evil", tarfile.REGTYPE, "x"),),
        (("/tmp/evil", tarfile.REGTYPE, "x"),),
        (("tree/./a", tarfile.REGTYPE, "x"),),
        (("other", tarfile.REGTYPE, "x"),),
        (("tree/a\x1b[31m", tarfile.REGTYPE, "x"),),
        (("tree/l", tarfile.SYMTYPE, ".."), ("tree/l/evil", tarfile.REGTYPE, "x")),
        (("tree/hard", tarfile.LNKTYPE, "/etc/passwd"),),
        (("tree/null", tarfile.CHRTYPE, ""),),
        (("tree/fifo", tarfile.FIFOTYPE, ""),),
    ],
)
def test_members_that_lead_outside_are_refused(
    members: tuple[tuple[str, bytes, str], ...], into: Path, tmp_path: Path
) -> None:
    before = set(tmp_path.iterdir())

    with pytest.raises(BadInputError):
        unpacked(hostile(*members), into)

    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("links", [["/etc"], ["../.."], ["..", "a0/.."]])
def test_links_that_lead_outside_are_refused(links: list[str], into: Path) -> None:
    members = [(f"tree/a{place}", tarfile.SYMTYPE, link) for place, link in enumerate(links)]
    end = ("end", tarfile.REGTYPE, '{"files": 0, "bytes": 0}')

    with pytest.raises(BadInputError):
        unpacked(hostile(*members, end), into)


def received(stream: bytes, into: Path) -> dict[str, archive.Arrived]:
    """What is there of a stream that was cut."""
    with pytest.raises(ChangedError):
        unpacked(stream, into)
    return arriving.arrived(into)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_transfer_that_was_cut_goes_on_where_it_was(tree: Path, into: Path, tmp_path: Path, share: float) -> None:
    whole = packed(tree)
    have = received(whole[: int(len(whole) * share)], into)
    out = io.BytesIO()
    archive.pack(tree, out, have)
    arriving.place(unpacked(out.getvalue(), into), tmp_path / "placed")

    assert described(tmp_path / "placed") == described(tree)
    missing = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) - sum(h.at for h in have.values())
    assert sum(h.at for h in have.values()) > share * 3_000_000 - 2 * archive.CHUNK
    assert len(out.getvalue()) < missing + 40_000  # headers


def test_a_transfer_can_be_cut_again_and_again(tree: Path, into: Path, tmp_path: Path) -> None:
    for share in (0.2, 0.4, 0.6):
        out = io.BytesIO()
        archive.pack(tree, out, arriving.arrived(into))
        received(out.getvalue()[: int(len(out.getvalue()) * share)], into)
    out = io.BytesIO()
    archive.pack(tree, out, arriving.arrived(into))
    arriving.place(unpacked(out.getvalue(), into), tmp_path / "placed")

    assert described(tmp_path / "placed") == described(tree)


def test_a_file_that_is_another_one_meanwhile_is_sent_anew(tree: Path, into: Path, tmp_path: Path) -> None:
    have = received(packed(tree)[:2_000_000], into)
    (tree / "-rf").write_bytes(b"y" * 3_000_001)
    (tree / "zero").unlink()
    out = io.BytesIO()
    archive.pack(tree, out, have)
    arriving.place(unpacked(out.getvalue(), into), tmp_path / "placed")

    assert described(tmp_path / "placed") == described(tree)


def test_bytes_that_were_damaged_on_the_disk_meanwhile_are_noticed_and_sent_again(
    tree: Path, into: Path, tmp_path: Path
) -> None:
    have = received(packed(tree)[:2_000_000], into)
    with (into / "tree" / "-rf").open("r+b") as file:
        file.write(b"damaged")
    out = io.BytesIO()
    archive.pack(tree, out, have)
    with pytest.raises(ChangedError, match=r"1 files arrived damaged, \['-rf'\]"):
        unpacked(out.getvalue(), into)
    again = io.BytesIO()
    archive.pack(tree, again, arriving.arrived(into))
    arriving.place(unpacked(again.getvalue(), into), tmp_path / "placed")

    assert described(tmp_path / "placed") == described(tree)


def test_bytes_that_change_on_the_way_are_noticed(tree: Path, into: Path) -> None:
    whole = bytearray(packed(tree))
    whole[whole.index(b"xxxxxxxx") + 100_000] ^= 1

    with pytest.raises(ChangedError, match="damaged"):
        unpacked(bytes(whole), into)


def test_what_an_earlier_try_linked_is_never_written_through(tree: Path, into: Path, tmp_path: Path) -> None:
    have = received(packed(tree)[:2_000_000], into)
    (tmp_path / "outside").write_text("outside")
    (into / "tree" / "zero").unlink(missing_ok=True)
    (into / "tree" / "zero").symlink_to(tmp_path / "outside")
    out = io.BytesIO()
    archive.pack(tree, out, have)
    arriving.place(unpacked(out.getvalue(), into), tmp_path / "placed")

    assert described(tmp_path / "placed") == described(tree)
    assert (tmp_path / "outside").read_text() == "outside"


def test_a_time_before_1970_and_one_far_ahead_arrive_to_the_nanosecond(tree: Path, into: Path) -> None:
    times = {"zero": -1_876_543_211, "-rf": 7_258_118_400_987_654_321}
    for name, mtime_ns in times.items():
        os.utime(tree / name, ns=(0, mtime_ns))

    got = unpacked(packed(tree), into)

    assert {name: (got.path / name).stat().st_mtime_ns for name in times} == times


def test_a_sparse_file_stays_sparse_and_is_the_same(tmp_path: Path, into: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.seek(40 << 20)
        file.write(b"middle")
        file.truncate(90 << 20)

    got = unpacked(packed(tmp_path / "sparse"), into)

    assert got.path.read_bytes() == (tmp_path / "sparse").read_bytes()
    assert got.path.stat().st_blocks * 512 <= 4 << 20


def test_a_link_in_a_circle_is_named_as_one(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(BadInputError, match="'loop' is a symbolic link that leads nowhere"):
        packed(tmp_path / "loop")


@pytest.mark.parametrize("closed", ["secret", "folder"])
def test_what_may_not_be_read_is_named_with_who_may_not(closed: str) -> None:
    code = (
        "import io, os, sys\nfrom pathlib import Path\nfrom tasks.pod import archive, layout\n"
        "from tasks.pod.errors import BadInputError\nif os.getuid() == 0: os.setuid(65534)\n"
        "try: archive.pack(Path(sys.argv[1]), io.BytesIO())\nexcept BadInputError as error: print(os.getuid(), error)"
    )
    with tempfile.TemporaryDirectory() as folder:  # into which another user may look, unlike pytest's
        tree = Path(folder)
        tree.chmod(0o755)
        (tree / "folder").mkdir()
        (tree / "secret").touch()
        (tree / closed).chmod(0)
        done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
        (tree / closed).chmod(0o700)

    who, _, said = done.stdout.partition(" ")
    assert said.startswith(f"User {who} may not ") and f"'{closed}" in said


@pytest.mark.parametrize("gone", ["zero", "-leading"])
def test_what_vanishes_while_a_tree_is_looked_at_is_a_change(tree: Path, gone: str) -> None:
    (tree / "link").unlink()
    entries = walk.walk(tree)
    next(entries)  # the tree's own listing is read by now, "-leading" has been told
    (tree / gone).rename(tree.parent / "elsewhere")

    with pytest.raises(ChangedError, match="vanished"):
        list(entries)
