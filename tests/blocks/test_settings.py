"""slipway.toml: what it says is used, what it can not say is one clear line."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from blocks.clusters.errors import UsageError
from blocks.settings import load_settings, read_settings


def write(folder: Path, text: str) -> Path:
    path = folder / "slipway.toml"
    path.write_text(text)
    return path


def test_the_nearest_file_upwards_is_read_and_its_paths_are_its_folders(tmp_path: Path) -> None:
    write(tmp_path, '[clusters.local]\nroot = "here"\ngpus = { h100 = 2 }\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    settings = read_settings(below)

    assert settings.folder == tmp_path
    assert settings.cluster().capacity().gpus == {"h100": 2}
    assert settings.hub().endpoint == "https://huggingface.co"


def test_settings_that_are_not_utf8_are_told_where(tmp_path: Path) -> None:
    path = tmp_path / "slipway.toml"
    path.write_bytes(b"# one\n# \xe9\n")
    with pytest.raises(UsageError, match=r"is not UTF-8: line 2 has byte 0xe9\. Save it as UTF-8\."):
        load_settings(path)
    path.write_bytes("# one\n".encode("utf-16"))
    with pytest.raises(UsageError, match="line 1 has byte 0xff"):
        load_settings(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", None),
        ("x = [", ["no TOML"]),
        ("x = " + "[" * 5000, ["nested too deeply"]),
        ("x = " + "9" * 5000, ["no TOML"]),
        ('default_clutser = "x"', ["default_clutser", "default_cluster"]),
        ('folder = "x"', ["folder", "unknown"]),
        ("buckets = 3", ["buckets"]),
        ('[clusters.local]\nroot = ""', ["clusters.local.root"]),
        ('[clusters.local]\nroot = "a\\u0000b"', ["clusters.local.root"]),
        ('[clusters.local]\nroot = "x"\ngpus = { h100 = -1 }', ["h100"]),
        ('[clusters.local]\nroot = "x"\ncpus = true', ["clusters.local.cpus: has to be a whole number, is True"]),
        ('[clusters.local]\nroot = "x"\ncpus = 2.0', ["clusters.local.cpus: has to be a whole number, is 2.0"]),
        ('[clusters.local]\nroot = "x"\npoll_seconds = "1"', ["poll_seconds: has to be a number, is '1'"]),
        ('[clusters.local]\nroot = "x"\ngpus = { h100 = true }', ["h100: has to be a whole number"]),
        ('[trainers.tiny]\nkind = "tiny"\nresources = { gpus = true }', ["gpus: has to be a whole number"]),
        ("[buckets.bee]\nanonymous = 1", ["anonymous: has to be true or false, is 1"]),
        ('[hubs.private]\nendpoint = "http://me:secret@hub"', ["hubs.private.endpoint"]),
        ('[trainers.tiny]\nkind = "tiny"\nimge = "x"', ["imge", "image"]),
    ],
)
def test_what_can_not_be_is_one_line_that_names_it(tmp_path: Path, text: str, words: list[str] | None) -> None:
    path = write(tmp_path, text)
    if words is None:
        assert load_settings(path).clusters
        return
    with pytest.raises(UsageError) as refused:
        load_settings(path)
    assert all(word in str(refused.value) for word in words), refused.value
    assert "secret" not in str(refused.value)


def test_a_home_of_nobody_is_refused(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, '[clusters.local]\nroot = "~nobody-here/x"\n'))
    with pytest.raises(UsageError, match=r"clusters\.local\.root"):
        settings.cluster()


def test_an_unknown_cluster_names_the_nearest(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, '[clusters.local]\nroot = "x"\n'))
    with pytest.raises(UsageError, match="local"):
        settings.cluster("locla")


def test_settings_with_a_byte_order_mark_are_settings(tmp_path: Path) -> None:
    (tmp_path / "slipway.toml").write_bytes(b"\xef\xbb\xbf[clusters.here]\r\nroot = 'x'\r\n")
    assert list(read_settings(tmp_path).clusters) == ["here"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Path.mkdir, "can not be read: Is a directory"),
        (os.mkfifo, "is no file"),
        (lambda path: path.symlink_to("nowhere"), "There are no settings at"),
    ],
)
def test_settings_that_are_no_file_are_not_passed_over(
    tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    make(tmp_path / "slipway.toml")
    with pytest.raises(UsageError, match=words):
        read_settings(tmp_path)
