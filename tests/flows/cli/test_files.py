"""`slipway volumes ls|du|get|put`."""

import os
from pathlib import Path

import pytest

from tests.flows.cli.conftest import Slipway


@pytest.fixture
def shelf(slipway: Slipway) -> Slipway:
    """With an empty volume `shelf`."""
    assert slipway("volumes", "create", "shelf", "--size", "1Gi").code == 0
    return slipway


def _root(shelf: Slipway) -> Path:
    return shelf.folder / "state" / "volumes" / "me" / "shelf"


def _tree(folder: Path) -> Path:
    (folder / "deep").mkdir(parents=True)
    (folder / "one.txt").write_text("one")
    (folder / "deep" / "two.bin").write_bytes(os.urandom(300_000))
    (folder / "deep" / "link").symlink_to("../one.txt")
    return folder


def test_a_directory_goes_there_and_back_unchanged(shelf: Slipway) -> None:
    tree = _tree(shelf.folder / "tree")
    put = shelf("volumes", "put", "shelf", "tree", "models/", "-o", "json").json
    assert put == {"path": "/volume/models", "files": 2, "bytes": 300_003}

    got = shelf("volumes", "get", "shelf", "/models", "back")
    assert (got.code, got.out) == (0, "")
    back = shelf.folder / "back"
    assert (back / "deep" / "two.bin").read_bytes() == (tree / "deep" / "two.bin").read_bytes()
    assert (back / "deep" / "link").readlink() == Path("../one.txt")
    assert sorted(p.name for p in shelf.folder.iterdir() if p.name.startswith(".slipway")) == []


def test_put_goes_to_the_root_and_get_comes_to_here_by_default(shelf: Slipway) -> None:
    shelf.write("note.txt", "hello")
    assert shelf("volumes", "put", "shelf", "note.txt").code == 0
    (shelf.folder / "note.txt").unlink()
    assert shelf("volumes", "get", "shelf", "note.txt").code == 0
    assert (shelf.folder / "note.txt").read_text() == "hello"


def test_paths_are_relative_to_the_root_of_the_volume(shelf: Slipway) -> None:
    shelf.write("note.txt", "hello")
    shelf("volumes", "put", "shelf", "note.txt", "/notes/a.txt")
    for path in ("notes/a.txt", "/notes/a.txt", "/volume/notes/a.txt", "/notes/../notes/./a.txt"):
        (entry,) = shelf("volumes", "ls", "shelf", path, "-o", "json").json
        assert (entry["path"], entry["type"], entry["size"]) == ("notes/a.txt", "file", 5)


def test_what_is_there_is_replaced_only_when_asked(shelf: Slipway) -> None:
    shelf.write("note.txt", "old")
    shelf("volumes", "put", "shelf", "note.txt")
    shelf.write("note.txt", "new")
    shelf("volumes", "put", "shelf", "note.txt").refused(2, "is there already")
    shelf("volumes", "get", "shelf", "note.txt").refused(1, "is there already", "--replace")
    assert (_root(shelf) / "note.txt").read_text() == "old"
    assert shelf("volumes", "put", "shelf", "note.txt", "--replace").code == 0
    assert (_root(shelf) / "note.txt").read_text() == "new"
    shelf.write("note.txt", "other")
    assert shelf("volumes", "get", "shelf", "note.txt", "--replace").code == 0
    assert (shelf.folder / "note.txt").read_text() == "new"


def test_ls_and_du_show_what_is_there(shelf: Slipway) -> None:
    _tree(shelf.folder / "tree")
    shelf("volumes", "put", "shelf", "tree", "models")
    assert shelf("volumes", "ls", "shelf", "models").out.splitlines() == ["deep/", "one.txt"]
    assert shelf("volumes", "ls", "shelf", "models", "-R").out.splitlines() == [
        "deep/",
        "deep/link -> ../one.txt",
        "deep/two.bin",
        "one.txt",
    ]
    long = shelf("volumes", "ls", "shelf", "models", "-l").out
    assert "directory" in long
    assert "3B" in long
    held = shelf("volumes", "du", "shelf", "/models", "-o", "json").json
    assert [entry["path"] for entry in held["entries"]] == ["models/deep", "models/one.txt"]
    assert held["bytes"] >= 300_003
    assert "models/deep" in shelf("volumes", "du", "shelf", "models").out


def test_control_characters_never_reach_the_terminal(shelf: Slipway) -> None:
    (_root(shelf) / "evil\x1b[31m").write_text("")
    assert "\x1b" not in shelf("volumes", "ls", "shelf").out
    assert "\x1b" not in shelf("volumes", "ls", "shelf", "-l").out


@pytest.mark.parametrize("path", ["../secret", "/a/../../secret", "a\nb", "a\x1b[0m"])
def test_paths_that_climb_out_or_have_control_characters_are_refused(shelf: Slipway, path: str) -> None:
    shelf.write("note.txt", "hello")
    for words in (["get", "shelf", path], ["put", "shelf", "note.txt", path], ["ls", "shelf", path]):
        shelf("volumes", *words).refused(2, repr(path))
    assert [entry.name for entry in _root(shelf).iterdir() if entry.name != ".slipway"] == []


def test_links_in_circles_are_refused_in_both_directions(shelf: Slipway) -> None:
    tree = _tree(shelf.folder / "tree")
    (tree / "a").symlink_to("b")
    (tree / "b").symlink_to("a")
    shelf("volumes", "put", "shelf", "tree").refused(2, "'a'", "leads nowhere")

    (_root(shelf) / "a").symlink_to("a")
    shelf("volumes", "get", "shelf", "/", "mine").refused(2, "'a'", "leads nowhere")
    assert shelf("volumes", "ls", "shelf").code == 0
    shelf("volumes", "put", "shelf", "slipway.toml", "a/x").refused(1)


def test_links_that_lead_outside_are_refused_in_both_directions(shelf: Slipway, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    tree = _tree(shelf.folder / "tree")
    (tree / "out").symlink_to(secret)
    shelf("volumes", "put", "shelf", "tree").refused(2, "'out'", "leads outside")
    assert not (_root(shelf) / "tree").exists()

    (_root(shelf) / "out").symlink_to(secret)
    shelf("volumes", "get", "shelf", "out", "mine").refused(2, "link")
    (_root(shelf) / "box").mkdir()
    (_root(shelf) / "box" / "out").symlink_to(secret)
    shelf("volumes", "get", "shelf", "box", "mine").refused(2, "leads outside")
    assert not (shelf.folder / "mine").exists()
    shelf("volumes", "put", "shelf", "slipway.toml", "out/x").refused(2)


@pytest.mark.parametrize("place", ["hub/x", "/runs/x", "holds/", "/volume/.slipway/x", "datasets/../runs/x"])
def test_put_is_refused_where_slipway_writes(shelf: Slipway, place: str) -> None:
    shelf("volumes", "put", "shelf", "slipway.toml", place).refused(2, "put can not write to")


def test_missing_files_are_named(shelf: Slipway) -> None:
    shelf("volumes", "put", "shelf", "nothing").refused(1, "'nothing'")
    shelf("volumes", "get", "shelf", "nothing").refused(1, "'nothing'")
    shelf("volumes", "ls", "shelf", "nothing").refused(1, "'nothing'")
    shelf("volumes", "du", "shelf", "nothing").refused(1, "'nothing'")


def test_a_place_that_can_not_be_written_is_named(shelf: Slipway) -> None:
    shelf.write("note.txt", "hello")
    shelf("volumes", "put", "shelf", "note.txt")
    shelf("volumes", "get", "shelf", "note.txt", "slipway.toml/x").refused(1, "slipway.toml/x", "can not be written")


@pytest.mark.parametrize(
    ("path", "why"),
    [("\udcff", "not UTF-8"), ("n" * 256, "too long"), ("n/" * 2000, "too long"), ("ü" * 200, "too long")],
)
def test_paths_that_no_file_system_takes_are_refused(shelf: Slipway, path: str, why: str) -> None:
    for command in (("ls", "shelf", path), ("get", "shelf", path), ("put", "shelf", "slipway.toml", path)):
        said = shelf("volumes", *command)
        assert (said.code, why in said.err, len(said.err) < 300) == (2, True, True), said.err


def test_a_line_end_in_a_name_does_not_make_two_names(shelf: Slipway) -> None:
    (_root(shelf) / "a\nb").touch()
    assert shelf("volumes", "ls", "shelf").out.split() == ["a\\nb"]
    assert "a\\nb" in shelf("volumes", "du", "shelf").out
