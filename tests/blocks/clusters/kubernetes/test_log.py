"""The log of a pod, read on from where it was: against a server that answers as a kubelet does, to the second."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from blocks.clusters.kubernetes.api import Api, CutOffError
from blocks.clusters.kubernetes.log import JobLog
from blocks.clusters.kubernetes.place import Place

BEGIN = datetime(2026, 8, 1, 12, tzinfo=UTC)


class Kubelet(ThreadingHTTPServer):
    """Has one container's log: entries of a time (microseconds from the beginning), three more digits, and bytes.

    Args:
        break_off: after how many bytes the next answer breaks, if at all.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.entries: list[tuple[int, str, bytes]] = []
        self.break_off: list[int] = []
        self.asked: list[dict[str, str]] = []

    def text(self, query: dict[str, str]) -> bytes:
        since = datetime.fromisoformat(query.get("sinceTime", "1970-01-01T00:00:00Z"))
        found, begins = [], True
        for micros, nanos, content in self.entries:
            at = BEGIN + timedelta(microseconds=micros)
            if at >= since:
                stamp = f"{at:%Y-%m-%dT%H:%M:%S.%f}{nanos}Z ".encode()
                found.append(stamp * begins + content)
            begins = content.endswith(b"\n")
        lines = b"".join(found).splitlines(keepends=True)
        return b"".join(lines[-int(query.get("tailLines", len(lines))) :] if lines else [])


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        kubelet = self.server
        assert isinstance(kubelet, Kubelet)
        query = dict(parse_qsl(urlsplit(self.path).query))
        kubelet.asked.append(query)
        body = kubelet.text(query)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if kubelet.break_off:
            body = body[: kubelet.break_off.pop(0)]
            self.close_connection = True
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def kubelet() -> Iterator[Kubelet]:
    server = Kubelet()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def api(kubelet: Kubelet, tmp_path: Path) -> Api:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{kubelet.server_port}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    return Api("c", str(tmp_path / "config"), None, patience_seconds=1)


def log_of(api: Api, state: str = "running", **asked: Any) -> JobLog:
    pod = {
        "metadata": {"name": "p"},
        "status": {"containerStatuses": [{"name": "main", "state": {state: {}}}]},
    }
    return JobLog(api, Place("team"), lambda: [pod], asked.get("since"), asked.get("last"))


def test_what_the_last_second_repeats_is_not_shown_again(api: Api, kubelet: Kubelet) -> None:
    log = log_of(api)
    kubelet.entries = [(1, "000", b"a\n"), (5, "001", b"b\n"), (5, "001", b"b\n")]
    assert list(log) == ["a", "b", "b"]
    kubelet.entries += [(5, "001", b"b\n"), (5, "002", b"c\n")]
    assert list(log) == ["b", "c"]
    kubelet.entries += [(3_000_000, "000", b"d\n"), (2_999_999, "000", b"a clock that was set back\n")]
    assert list(log) == ["d", "a clock that was set back"]
    assert list(log) == []
    assert [query.get("sinceTime", "")[17:] for query in kubelet.asked] == ["", "00Z", "00Z", "03Z"]


def test_a_line_that_comes_in_parts_is_shown_to_its_end(api: Api, kubelet: Kubelet) -> None:
    log = log_of(api)
    kubelet.entries = [(1, "000", b"a\n"), (999_999, "000", b"long")]
    assert list(log) == ["a", "long"]
    kubelet.entries += [(1_000_001, "000", b" longer"), (2_000_000, "000", b" longest\n"), (2_000_001, "000", b"b\n")]
    assert list(log) == [" longer longest", "b"]
    assert list(log_of(api, since=BEGIN + timedelta(seconds=1)))[-1] == "b"


def test_a_connection_that_breaks_is_gone_on_from(api: Api, kubelet: Kubelet) -> None:
    kubelet.entries = [(n, "000", f"line {n}\n".encode()) for n in range(50_000)]
    kubelet.break_off = [1_000_000, 1_500_000]
    log = log_of(api)
    assert "".join(list(log)) == "".join(f"line {n}" for n in range(50_000))
    kubelet.break_off = [0, 0]
    with pytest.raises(CutOffError, match="broke off"):
        list(log)


def test_the_last_lines_are_asked_for_and_what_follows_them_is_read(api: Api, kubelet: Kubelet) -> None:
    kubelet.entries = [(n, "000", f"line {n}\n".encode()) for n in range(100)]
    log = log_of(api, last=2)
    assert list(log) == ["line 98", "line 99"]
    kubelet.entries += [(100, "000", b"line 100\n")]
    assert list(log) == ["line 100"]
    assert kubelet.asked[0]["tailLines"] == "2"
    assert "tailLines" not in kubelet.asked[1]


def test_a_container_that_has_ended_is_asked_once(api: Api, kubelet: Kubelet) -> None:
    kubelet.entries = [(1, "000", b"a\n")]
    log = log_of(api, "terminated")
    assert (list(log), list(log), len(kubelet.asked)) == (["a"], [], 1)


def test_a_very_long_line_comes_in_pieces(api: Api, kubelet: Kubelet) -> None:
    kubelet.entries = [(1, "000", b"z" * (3 * 2**20)), (2, "000", b"z\n")]
    log = log_of(api)
    found = list(log)
    assert "".join(found) == "z" * (3 * 2**20 + 1)
    assert max(map(len, found)) < 2 * 2**20
    assert list(log) == []
