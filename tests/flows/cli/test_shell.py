"""`slipway volumes ssh|sessions|cat` as a person uses them, on a terminal of their own."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.flows.cli.conftest import Slipway
from tests.flows.cli.person import Person, sleep_once_there_are


@pytest.fixture
def shelf(slipway: Slipway) -> Slipway:
    """With an empty volume `shelf`."""
    assert slipway("volumes", "create", "shelf", "--size", "1Gi").code == 0
    return slipway


def test_a_shell_on_a_volume_is_a_real_terminal(shelf: Slipway) -> None:
    person = Person(shelf, "volumes", "ssh", "shelf")
    person.sees(b"read-write")
    person.types(b"stty size; echo hello > no''te; pwd\r")
    person.sees(b"30 90")
    person.sees(b"volumes/me/shelf")
    listed = shelf("volumes", "sessions", "-o", "json").json
    assert [(s["volume"], s["writable"]) for s in listed] == [("shelf", True)]
    shelf("volumes", "delete", "shelf", "--yes").refused(1, listed[0]["id"])
    person.resize(41, 111)
    person.types(sleep_once_there_are(111) + b"\r")
    person.sees(b"111 41")
    person.types(b"\x03")
    person.types(b"exit 5\r")
    assert person.leaves() == 5
    assert shelf.process("volumes", "cat", "shelf", "note").out == "hello\n"
    assert shelf("volumes", "sessions").err.strip() == "No session is open."


def test_a_command_instead_of_a_shell_has_pipes_and_its_own_exit_code(shelf: Slipway) -> None:
    done = shelf.process("volumes", "ssh", "shelf", "--", "sh", "-c", "echo out; echo err >&2; exit 9")
    assert (done.code, done.out) == (9, "out\n")
    assert "err\n" in done.err and "read-write" in done.err


def test_a_session_can_be_stopped_from_elsewhere(shelf: Slipway) -> None:
    person = Person(shelf, "volumes", "ssh", "shelf", "--read-only")
    person.sees(b"read-only")
    person.types(b"echo re''ady\r")
    person.sees(b"ready")
    ((session,),) = [[s["id"] for s in shelf("volumes", "sessions", "-o", "json").json]]
    answer = shelf("volumes", "sessions", "stop", session, "-o", "json")
    assert answer.json == {"session": session, "stopped": True}
    assert person.leaves() == 1
    assert b"\r\nerror: The session was stopped" in person.seen
    shelf("volumes", "sessions", "stop", session).refused(1, session)


def test_a_command_that_is_killed_leaves_no_session(shelf: Slipway) -> None:
    person = Person(shelf, "volumes", "ssh", "shelf")
    person.sees(b"read-write")
    person.types(b"echo re''ady\r")
    person.sees(b"ready")
    person.process.send_signal(signal.SIGKILL)
    person.leaves()
    assert shelf("volumes", "sessions", "-o", "json").json == []


def test_both_modes_at_once_are_refused(shelf: Slipway) -> None:
    shelf("volumes", "ssh", "shelf", "--read-only", "--read-write").refused(2, "--read-only", "--read-write")
    shelf("volumes", "ssh", "attic").refused(1, "attic")


def test_cat_prints_bytes_as_they_are_and_spares_a_terminal(shelf: Slipway) -> None:
    root = shelf.folder / "state" / "volumes" / "me" / "shelf"
    (root / "odd -ü").write_bytes(b"a\x1b[31mb\tc\n")
    assert shelf.process("volumes", "cat", "shelf", "odd -ü").out == "a\x1b[31mb\tc\n"
    person = Person(shelf, "volumes", "cat", "shelf", "odd -ü")
    assert person.leaves() == 0
    assert b"\\x1b[31mb\tc" in person.seen and b"\x1b" not in person.seen
    shelf("volumes", "cat", "shelf", "/").refused(2, "not a file")
    shelf("volumes", "cat", "shelf", "nothing").refused(1, "nothing")
    (root / "out").symlink_to(Path("/etc/passwd"))
    shelf("volumes", "cat", "shelf", "out").refused(2, "link")


def killed_while(shelf: Slipway, program: str, *arguments: str) -> int:
    """Start a transfer and kill the other end of it a few times, once bytes flow; how often it was cut."""
    process = shelf.start(*arguments)
    kills = before = 0
    while kills < 3 and process.poll() is None:
        time.sleep(0.02)
        if arrived(shelf) < before + (10 << 20):
            continue
        before = arrived(shelf)
        found = subprocess.run(["pgrep", "-f", f"stream {program}"], capture_output=True, text=True, check=False)
        for pid in found.stdout.split():
            with contextlib.suppress(OSError):  # it may have ended meanwhile
                if str(shelf.folder) in Path(f"/proc/{pid}/environ").read_text():
                    os.kill(int(pid), signal.SIGKILL)
                    kills += 1
    out, err = process.communicate()
    assert process.returncode == 0, out + err
    return err.count("it goes on where it was")


def arrived(shelf: Slipway) -> int:
    """Bytes that are there of what is on its way."""
    areas = [*shelf.folder.glob(".slipway-get-*"), *shelf.folder.glob("state/volumes/me/shelf/.slipway/staging/put-*")]
    total = 0
    for path in (path for area in areas for path in area.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def test_a_transfer_goes_on_when_the_other_end_is_killed(shelf: Slipway) -> None:
    tree = shelf.folder / "tree"
    tree.mkdir()
    for number in range(4):
        (tree / f"{number}.bin").write_bytes(os.urandom(1 << 20) * 40)
    # On a busy machine one may be over before it is cut: it is made again then, in place of what it brought.
    while not killed_while(shelf, "transfer.receive", "volumes", "put", "shelf", "tree", "there", "--replace"):
        pass
    while not killed_while(shelf, "transfer.send", "volumes", "get", "shelf", "there", "back", "--replace"):
        pass
    for number in range(4):
        assert (shelf.folder / "back" / f"{number}.bin").read_bytes() == (tree / f"{number}.bin").read_bytes()
    assert [p for p in shelf.folder.iterdir() if p.name.startswith(".slipway")] == []
    assert list((shelf.folder / "state/volumes/me/shelf/.slipway/staging").glob("put-*")) == []


def kill_in_the_midst(shelf: Slipway, *arguments: str) -> None:
    """Start a get and kill it once bytes flow."""
    process = shelf.start(*arguments)
    while arrived(shelf) < 1 << 20 and process.poll() is None:
        time.sleep(0.005)
    process.kill()
    out, err = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), out + err


def test_a_get_that_is_killed_goes_on_with_the_same_command(shelf: Slipway) -> None:
    source = shelf.folder / "state" / "volumes" / "me" / "shelf" / "big.bin"
    source.write_bytes(os.urandom(1 << 20) * 256)
    mine = shelf.folder / "mine.bin"
    kill_in_the_midst(shelf, "volumes", "get", "shelf", "big.bin", "mine.bin")
    while mine.exists():  # on a busy machine it may be over before it is killed
        assert mine.read_bytes() == source.read_bytes()
        mine.unlink()
        kill_in_the_midst(shelf, "volumes", "get", "shelf", "big.bin", "mine.bin")
    assert shelf("volumes", "get", "shelf", "big.bin", "mine.bin").code == 0
    assert mine.read_bytes() == source.read_bytes()
    assert next(shelf.folder.glob(".slipway-get-*"), None) is None
