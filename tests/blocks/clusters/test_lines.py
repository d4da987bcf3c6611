"""Lines of a log that is half written."""

from blocks.clusters.lines import Lines


def read(pieces: list[bytes]) -> list[list[str]]:
    lines = Lines()
    return [list(lines.of(piece)) for piece in pieces]


def test_a_line_that_was_shown_while_it_was_written_is_shown_to_its_end() -> None:
    assert read([b"one\n", b"tw", b"o\n", b"\n", b"th", b"ree\r\n", b"four"]) == [
        *(["one"], ["tw"], ["o"], [""], ["th"], ["ree"], ["four"])
    ]


def test_only_the_end_of_a_line_that_was_shown_is_nothing_new() -> None:
    assert read([b"one", b"\n", b"two\n"]) == [["one"], [], ["two"]]


def test_a_character_that_is_half_written_waits_for_its_rest() -> None:
    assert read(["ü".encode()[:1], "ü".encode()[1:] + b"\n"]) == [[], ["ü"]]
    assert read([b"a\xff\n"]) == [["a\ufffd"]]
