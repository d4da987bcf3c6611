"""What people do in sessions, the same on every cluster."""

import threading
import time
from collections.abc import Iterator

import pytest

from blocks.clusters.errors import NotFoundError, SlipwayError
from blocks.clusters.port import Session, Terminal
from tests.blocks.clusters.bench import PATIENCE_SECONDS, Bench


@pytest.fixture
def session(bench: Bench) -> Iterator[Session]:
    bench.volume()
    yield bench.cluster.sessions.open("shelf")


class Said:
    """What a terminal says, collected while it does."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.out, self.err = b"", b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while (said := self.terminal.read()) is not None:
            if said[0] == 1:
                self.out += said[1]
            else:
                self.err += said[1]

    def until(self, words: bytes) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while words not in self.out:
            assert time.monotonic() < deadline, self.out
            time.sleep(0.05)

    def ended(self) -> int:
        self._reader.join(PATIENCE_SECONDS)
        assert not self._reader.is_alive(), self.out
        try:
            return self.terminal.wait()
        finally:
            self.terminal.close()


def test_a_program_has_the_volume_and_its_pipes_and_exit_code(bench: Bench, session: Session) -> None:
    code = (
        "import sys; open('note', 'w').write(sys.stdin.read())\n"
        "print('out'); print('err', file=sys.stderr); sys.exit(7)"
    )
    said = Said(bench.cluster.sessions.attach(session.id, ["python", "-c", code], None))
    said.terminal.write(b"written " * 1000)
    said.terminal.write("-ü\n".encode())
    said.terminal.end_input()
    assert (said.ended(), said.out, said.err) == (7, b"out\n", b"err\n")
    (entry,) = [e for e in bench.cluster.call("shelf", "transfer.ls", {})["entries"] if e["path"] == "note"]
    assert entry["size"] == 8004


def test_a_program_that_is_killed_says_by_which_signal(bench: Bench, session: Session) -> None:
    said = Said(bench.cluster.sessions.attach(session.id, ["sh", "-c", "kill -TERM $$"], None))
    assert said.ended() == 143


def test_a_terminal_has_a_size_that_follows(bench: Bench, session: Session) -> None:
    until_it_changes = 'stty size; while [ "$(stty size)" = "33 101" ]; do sleep 0.1; done; stty size'
    said = Said(bench.cluster.sessions.attach(session.id, ["sh", "-c", until_it_changes], (33, 101)))
    said.until(b"33 101")
    said.terminal.resize(40, 120)
    said.until(b"40 120")
    assert said.ended() == 0


def test_control_c_reaches_what_runs_in_the_foreground_and_leaves_the_shell(bench: Bench, session: Session) -> None:
    said = Said(bench.cluster.sessions.attach(session.id, [], (24, 80)))
    # Who says it is in the foreground, and takes the signal: some shells lose one that comes before they run a program.
    said.terminal.write(b"python -c \"import time; print('re' + 'ady', flush=True); time.sleep(300)\"\n")
    said.until(b"ready")
    said.terminal.write(b"\x03")
    time.sleep(0.5)
    said.terminal.write(b"echo al''ive; exit 3\n")
    said.until(b"alive")
    assert said.ended() == 3


def test_what_runs_in_a_session_ends_with_it_and_says_so(bench: Bench, session: Session) -> None:
    said = Said(bench.cluster.sessions.attach(session.id, ["sh", "-c", "echo up; sleep 300"], (24, 80)))
    said.until(b"up")
    bench.cluster.sessions.stop(session.id)
    with pytest.raises(SlipwayError, match="session"):
        said.ended()


def test_a_session_that_is_not_there_can_not_be_used(bench: Bench, session: Session) -> None:
    with pytest.raises(NotFoundError, match=session.id):
        bench.cluster.sessions.attach("session-of-nobody", [], None)


def test_a_session_for_reading_only_can_not_be_written(bench: Bench) -> None:
    bench.volume()
    reader = bench.cluster.sessions.open("shelf", writable=False)
    said = Said(bench.cluster.sessions.attach(reader.id, ["sh", "-c", "touch a"], None))
    said.terminal.end_input()
    code = said.ended()
    if bench.contains:  # the local cluster can not keep a process of the same user from writing
        assert code != 0 and b"Read-only file system" in said.err
    else:
        assert code == 0


def test_leaving_a_session_that_was_opened_for_one_use_ends_it(bench: Bench, session: Session) -> None:
    bench.cluster.sessions.leave(session)
    bench.wait(lambda: [s for s in bench.cluster.sessions.list() if not s.internal] == [])
