"""Sessions and transfers on Kubernetes: through exec, as people use them."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blocks.clusters.errors import SlipwayError
from blocks.clusters.kubernetes.cluster import KubernetesCluster
from tests.cluster.access import NAMESPACES, TestCluster, api_server_away, kill_processes_of
from tests.cluster.accounts import make_account, rules, write_kubeconfig
from tests.flows.cli.conftest import Slipway
from tests.flows.cli.person import Person, sleep_once_there_are
from tests.kubernetes.conftest import command_line
from tests.kubernetes.waiting import wait_until
from tests.tasks.conftest import Desk

pytestmark = pytest.mark.cluster


@pytest.fixture
def slipway(kubernetes: TestCluster, owner: str, tmp_path: Path) -> Slipway:
    """The command line with a slipway.toml that names the test cluster, and a volume `shelf`."""
    slipway = command_line(tmp_path, kubernetes, owner)
    assert slipway("volumes", "create", "shelf", "--size", "1Gi").code == 0
    return slipway


def pods(cluster: KubernetesCluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in cluster.api.items(f"/api/v1/namespaces/{cluster.owner}/pods")]


def test_a_shell_in_a_pod_is_a_real_terminal(slipway: Slipway) -> None:
    person = Person(slipway, "volumes", "ssh", "shelf", rows=33, columns=77)
    person.sees(b"read-write")
    person.types(b"stty size; pwd; id -u; echo hello > '-od d \xc3\xbc'\r")
    person.sees(b"33 77")
    person.sees(b"/volume")
    person.sees(b"1000")
    ((session,),) = [[s["id"] for s in slipway("volumes", "sessions", "-o", "json").json]]
    slipway("volumes", "delete", "shelf", "--yes").refused(1, session)
    person.resize(41, 111)
    person.types(sleep_once_there_are(111) + b"\r")
    person.sees(b"111 41")
    person.types(b"\x03")
    time.sleep(0.5)
    person.types(b"exit 5\r")
    assert person.leaves() == 5
    assert slipway.process("volumes", "cat", "shelf", "--", "-od d ü").out == "hello\n"
    assert slipway("volumes", "sessions").err.strip() == "No session is open."
    done = slipway.process("volumes", "ssh", "shelf", "--read-only", "--", "sh", "-c", "echo out; touch x || exit 9")
    assert (done.code, done.out) == (9, "out\n")
    assert "Read-only file system" in done.err


@pytest.mark.parametrize("how", ["deleted", "evicted", "killed", "stopped"])
def test_a_shell_whose_session_goes_says_so_in_one_line_and_leaves_the_terminal_as_it_was(
    slipway: Slipway, kubernetes: TestCluster, how: str
) -> None:
    cluster = slipway.cluster
    assert isinstance(cluster, KubernetesCluster)
    person = Person(slipway, "volumes", "ssh", "shelf")
    modes = person.modes
    person.sees(b"read-write")
    person.types(b"echo at''work; sleep 300\r")
    person.sees(b"atwork")
    assert person.modes != modes  # raw
    (session,) = [session.id for session in cluster.sessions.list() if not session.internal]
    path = f"/api/v1/namespaces/{cluster.owner}/pods/{session}"
    match how:
        case "deleted":
            cluster.api.delete(path)
        case "evicted":
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": session}}
            cluster.api.post(f"{path}/eviction", eviction)
        case "killed":
            if not kubernetes.ours:
                pytest.skip("the processes of a cluster that was named are not ours to kill")
            kill_processes_of(cluster.api.get(path)["metadata"]["uid"])
        case "stopped":
            assert slipway("volumes", "sessions", "stop", session).code == 0
    _ended_with_one_line(person, modes, session)


@pytest.mark.alone
def test_an_api_server_that_goes_away_under_a_shell_and_a_put(slipway: Slipway, kubernetes: TestCluster) -> None:
    if not kubernetes.ours:
        pytest.skip("the API server of a cluster that was named is not ours to stop")
    (slipway.folder / "large").write_bytes(os.urandom(1 << 20) * 400)
    person = Person(slipway, "volumes", "ssh", "shelf")
    modes = person.modes
    person.sees(b"read-write")
    person.types(b"echo at''work\r")
    person.sees(b"atwork")
    put = slipway.start("volumes", "put", "shelf", "large")

    def arrived() -> int:
        return int(slipway.cluster.call("shelf", "volume.usage", {})["used_bytes"])

    wait_until(lambda: arrived() > 32 << 20 or put.poll() is not None)
    with api_server_away(kubernetes):
        time.sleep(5)
    _ended_with_one_line(person, modes, "session-")
    _, err = put.communicate(timeout=600)
    assert (put.returncode, err.count("it goes on where it was")) == (0, 1), err
    assert slipway("volumes", "get", "shelf", "large", "back").code == 0
    assert (slipway.folder / "back").read_bytes() == (slipway.folder / "large").read_bytes()


@pytest.fixture
def log_in(slipway: Slipway, kubernetes: TestCluster, owner: str, tmp_path: Path) -> Callable[[], None]:
    """Has the command line use an account with the rights of a person; called again, its token is a new one."""
    admin, kubeconfig = kubernetes.connect(owner).api, tmp_path / "kubeconfig"
    make_account(admin, owner, "person", rules("owner/roles.yaml", "slipway"))
    settings = slipway.folder / "slipway.toml"
    settings.write_text(settings.read_text().replace(kubernetes.kubeconfig, str(kubeconfig)))
    account = f"{NAMESPACES}/{owner}/serviceaccounts/person"

    def anew() -> None:
        if admin.find(account) is None:
            admin.post(account.removesuffix("/person"), {"metadata": {"name": "person"}})
        write_kubeconfig(kubeconfig, admin, owner, "person")
        wait_until(lambda: slipway("volumes", "list").code == 0)

    anew()
    return anew


def _log_out(slipway: Slipway, admin: KubernetesCluster) -> None:
    admin.api.delete(f"{NAMESPACES}/{admin.owner}/serviceaccounts/person")
    wait_until(lambda: slipway("volumes", "list").code == 1)  # once the API server has forgotten the token


def test_credentials_that_end_under_a_put_cost_nothing_that_has_arrived(
    slipway: Slipway, kubernetes: TestCluster, owner: str, log_in: Callable[[], None]
) -> None:
    admin = kubernetes.connect(owner)
    (slipway.folder / "large").write_bytes(os.urandom(1 << 20) * 300)
    put = slipway.start("volumes", "put", "shelf", "large")

    def arrived() -> int:
        return int(admin.call("shelf", "volume.usage", {})["used_bytes"])

    wait_until(lambda: arrived() > 32 << 20)
    put.send_signal(signal.SIGSTOP)
    _log_out(slipway, admin)
    (session,) = [session.id for session in admin.sessions.list() if not session.internal]
    admin.sessions.stop(session)
    put.send_signal(signal.SIGCONT)
    _, err = put.communicate(timeout=600)
    assert put.returncode == 1
    (said,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert "have expired. Log in again" in said and "the same command goes on from there" in said

    kept = arrived()
    log_in()
    assert kept > 32 << 20
    assert slipway("volumes", "put", "shelf", "large").code == 0
    assert slipway("volumes", "get", "shelf", "large", "back").code == 0
    assert (slipway.folder / "back").read_bytes() == (slipway.folder / "large").read_bytes()


def test_credentials_that_end_under_a_shell_leave_it_and_its_exit_code(
    slipway: Slipway, kubernetes: TestCluster, owner: str, log_in: Callable[[], None]
) -> None:
    admin = kubernetes.connect(owner)
    shell = slipway.start(
        "volumes", "ssh", "shelf", "--", "sh", "-c", "echo up; until [ -e over ]; do sleep 1; done; exit 7"
    )
    assert shell.stdout and shell.stdout.readline() == "up\n"
    _log_out(slipway, admin)
    (session,) = [session.id for session in admin.sessions.list() if not session.internal]
    touching = admin.sessions.attach(session, ["touch", "over"], None)
    while touching.read() is not None:
        pass
    assert touching.wait() == 0
    _, err = shell.communicate(timeout=600)
    assert shell.returncode == 7
    assert err.splitlines()[-1].startswith(f"Session {session} is left to end by itself: ") and "Log in" in err


def _ended_with_one_line(person: Person, modes: list[Any], session: str) -> None:
    assert person.leaves() == 1
    said = [line for line in person.seen.splitlines() if line.startswith(b"error: ")]
    assert len(said) == 1 and session.encode() in said[0] and b"ended" in said[0], person.seen
    assert b"Traceback" not in person.seen
    assert person.modes == modes


def test_a_reader_may_use_a_writers_session_and_a_writer_never_a_readers(desk: Desk) -> None:
    sessions, volumes = desk.cluster.sessions, desk.cluster.volumes
    volumes.create("shelf", 2**30)
    reader = sessions.open("shelf", writable=False)
    again = sessions.open("shelf", writable=False, reuse=True)
    assert (again.id, again.reused) == (reader.id, True)
    writer = sessions.open("shelf", writable=True, reuse=True)
    assert writer.id != reader.id and writer.writable and not writer.reused
    sessions.stop(reader.id)
    assert sessions.open("shelf", writable=False, reuse=True).id == writer.id
    at_work = sessions.attach(writer.id, ["sh", "-c", "echo up; sleep 300"], None)
    assert at_work.read() == (1, b"up\n")
    sessions.leave(writer)
    assert [s.id for s in sessions.list()] == [writer.id]  # somebody else is in it
    at_work.close()


def test_an_idle_session_ends_itself_and_one_that_is_used_does_not(kubernetes: TestCluster, owner: str) -> None:
    cluster = kubernetes.connect(owner, shell_idle_seconds=30)
    cluster.volumes.create("shelf", 2**30)
    used = cluster.sessions.open("shelf")
    program = cluster.sessions.attach(used.id, ["sleep", "100"], None)
    idle = cluster.sessions.open("shelf")
    shell = cluster.sessions.attach(idle.id, [], (24, 80))
    wait_until(lambda: [s.id for s in cluster.sessions.list()] == [used.id])
    while shell.read() is not None:
        pass
    with pytest.raises(SlipwayError, match="idle"):
        shell.wait()
    while program.read() is not None:
        pass
    assert program.wait() == 0  # longer than a session may be idle: it was not
    wait_until(lambda: cluster.sessions.list() == [])


def test_a_session_that_nothing_is_started_in_ends_itself(kubernetes: TestCluster, owner: str) -> None:
    """As one whose command was killed before it was connected."""
    cluster = kubernetes.connect(owner)
    cluster.volumes.create("shelf", 2**30)
    cluster.sessions.open("shelf")
    wait_until(lambda: cluster.sessions.list() == [])


def test_a_tree_goes_there_and_back_through_sessions_that_are_killed(slipway: Slipway) -> None:
    tree = slipway.folder / "a tree"
    (tree / "-deep" / "er").mkdir(parents=True)
    (tree / "-deep" / "ünï").write_text("small")
    (tree / "-deep" / "ünï").chmod(0o640)
    os.utime(tree / "-deep" / "ünï", ns=(1, 1_234_567_890_123_456_789))
    (tree / "link").symlink_to("-deep/ünï")
    for number in range(4):
        (tree / "-deep" / "er" / f"{number}.bin").write_bytes(os.urandom(1 << 20) * 100)
    cuts = 0
    while not cuts:  # on a busy machine both may be over before they are cut
        cuts += cut(slipway, "volumes", "put", "shelf", "a tree", "/there", "--replace")
        cuts += cut(slipway, "volumes", "get", "shelf", "there", "back", "--replace")
    back = slipway.folder / "back"
    for number in range(4):
        name = Path("-deep") / "er" / f"{number}.bin"
        assert (back / name).read_bytes() == (tree / name).read_bytes()
    small = (back / "-deep" / "ünï").stat()
    assert (small.st_mode & 0o777, small.st_mtime_ns) == (0o640, 1_234_567_890_123_456_789)
    assert (back / "link").readlink() == Path("-deep/ünï")
    assert [p for p in slipway.folder.iterdir() if p.name.startswith(".slipway")] == []
    assert slipway("volumes", "ls", "shelf", "-R", "-o", "json").code == 0


def cut(slipway: Slipway, *arguments: str) -> int:
    """Run a transfer whose session is killed up to three times, each time after it has moved something; how often it
    went on."""
    cluster = slipway.cluster
    assert isinstance(cluster, KubernetesCluster)
    process = slipway.start(*arguments)

    def arrived() -> int:
        here = sum(path.stat().st_size for path in slipway.folder.rglob("*") if path.is_file())
        return here + int(cluster.call("shelf", "volume.usage", {})["used_bytes"])

    def kill() -> None:
        kills, before = 0, arrived()
        while kills < 3 and process.poll() is None:
            with contextlib.suppress(OSError):  # a file was renamed meanwhile
                if (now := arrived()) - before > 32 << 20:
                    before = now
                    for session in cluster.sessions.list():
                        path = f"/api/v1/namespaces/{cluster.owner}/pods/{session.id}"
                        kills += not session.internal and cluster.api.delete(path, grace_seconds=0)
            time.sleep(0.1)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    out, err = process.communicate(timeout=600)
    killer.join()
    assert process.returncode == 0, out + err
    assert "Traceback" not in err
    return err.count("it goes on where it was")
