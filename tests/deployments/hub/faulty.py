"""A Hub that counts what it serves and fails when it is told to: for tests only."""

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import unquote, urlsplit

from deployments.hub.repositories import File
from deployments.hub.server import HubHandler, HubServer
from tests.deployments.hub.xet import XetStorage

XET_TOKEN = "xet-read"


@dataclass(frozen=True)
class Status:
    """Answer with an error instead."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class WrongBytes:
    """Send zeros, as many as promised."""


@dataclass(frozen=True)
class Cut:
    """Close the connection after so many bytes of the body."""

    after: int


@dataclass(frozen=True)
class Stall:
    """Send nothing more after so many bytes of the body."""

    after: int
    seconds: float = 30


@dataclass(frozen=True)
class Redirect:
    """Send the client elsewhere, as the Hub does for large files."""

    to: str


@dataclass(frozen=True)
class Says:
    """Answer 200 with these words, as something that is no Hub does."""

    body: str


Fault = Says | Status | WrongBytes | Cut | Stall | Redirect


class FaultyHub(HubServer):
    """Faults are queued by a part of the path; each is used once, by the first request (GET; HEAD too for a `Status`)
    whose path contains it. `always` faults stay. Files named in `claims_xet` are said to be on Xet, where they are not;
    those in `over_xet` are served over Xet, too.
    """

    def __init__(self, root: Path, rate: float | None = None) -> None:
        self.served: Counter[str] = Counter()
        self.requests: list[tuple[str, str, str | None, str | None]] = []
        self.faults: dict[str, deque[Fault]] = {}
        self.always: dict[str, Fault] = {}
        self.claims_xet: set[str] = set()
        self.over_xet: set[str] = set()
        self.count_lock = threading.Lock()
        super().__init__(root, rate=rate)
        self.xet = XetStorage(f"{self.endpoint}/xet")

    def handler(self) -> type[HubHandler]:
        return _FaultyHandler

    def fail(self, path: str, *faults: Fault) -> None:
        self.faults.setdefault(path, deque()).extend(faults)

    def bytes_of(self, name: str) -> int:
        """Body bytes sent for files whose path ends so."""
        with self.count_lock:
            return sum(count for path, count in self.served.items() if path.endswith(name))

    def gets(self, name: str) -> list[tuple[str | None, str | None]]:
        """Range and authorization of every GET whose path ends so."""
        return [(r, a) for method, path, r, a in self.requests if method == "GET" and path.endswith(name)]


class _FaultyHandler(HubHandler):
    server: FaultyHub
    fault: Fault | None = None

    def do_GET(self) -> None:
        self._answer_or_fail(super().do_GET)

    def do_HEAD(self) -> None:
        self._answer_or_fail(super().do_HEAD)

    def _route(self) -> None:
        path = urlsplit(self.path).path
        if path.startswith("/xet/"):
            self._xet(path.removeprefix("/xet/"))
        elif "/xet-read-token/" in path and self.server.over_xet:
            lasts = int(time.time()) + 3600
            token = {"accessToken": XET_TOKEN, "exp": lasts, "casUrl": self.server.xet.url}
            headers = {"X-Xet-Access-Token": XET_TOKEN, "X-Xet-Token-Expiration": str(lasts)}
            self._answer(token, headers={**headers, "X-Xet-Cas-Url": self.server.xet.url})
        else:
            super()._route()

    def _xet(self, path: str) -> None:
        """`v1/reconstructions/<file>` and `xorbs/<xorb>`, both with ranges; nothing else of the protocol."""
        name = path.rpartition("/")[2]
        start, end = _range(self.headers.get("Range"))
        try:
            if path.startswith("v1/reconstructions/"):
                if self.headers.get("Authorization") != f"Bearer {XET_TOKEN}":
                    self._refuse(HTTPStatus.UNAUTHORIZED, None, "no token")
                    return
                answer = self.server.xet.reconstruction(name, start, end)
                if answer is None:
                    self._refuse(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, None, "no such bytes")
                    return
                self._send_bytes(HTTPStatus.OK, answer)
            elif path.startswith("xorbs/"):
                self._send_bytes(HTTPStatus.PARTIAL_CONTENT, self.server.xet.xorb(name)[start:end], count=True)
            else:
                self._refuse(HTTPStatus.NOT_FOUND, None, "not a call that is answered here")
        except KeyError:
            self._refuse(HTTPStatus.NOT_FOUND, None, "not there")

    def _send_bytes(self, status: HTTPStatus, body: bytes, *, count: bool = False) -> None:
        if isinstance(self.fault, WrongBytes):
            body = body[:8] + bytes(len(body) - 8)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = self.fault.after if isinstance(self.fault, Cut) else len(body)
        for at in range(0, min(cut, len(body)), 1 << 16):
            piece = body[at : min(at + (1 << 16), cut)]
            self.server.wait_turn(len(piece))
            self.wfile.write(piece)
            if count:
                self._count(len(piece))
        self.close_connection = self.close_connection or cut < len(body)

    def _answer(
        self, answer: object, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None
    ) -> None:
        if isinstance(answer, list) and self.server.over_xet:
            answer = [self._on_xet(entry) for entry in answer]
        super()._answer(answer, status, headers)

    def _on_xet(self, entry: dict[str, object]) -> dict[str, object]:
        name = str(entry["path"]).rpartition("/")[2]
        if name not in self.server.over_xet:
            return entry
        kind, _, rest = urlsplit(self.path).path.removeprefix("/api/").partition("/")
        repo, _, revision = rest.partition("/tree/")
        commit = self.server.repositories.commit(kind, repo, revision)
        assert commit
        return entry | {"xetHash": self.server.xet.add(commit.files[str(entry["path"])].source)}

    def end_headers(self) -> None:
        if self.path.rpartition("/")[2] in self.server.claims_xet:
            self.send_header("X-Xet-Hash", "a" * 64)
            self.send_header("X-Xet-Refresh-Route", f"{self.server.endpoint}/api/xet-read-token")
        super().end_headers()

    def send_body(self, file: File, start: int, end: int) -> None:
        match self.fault:
            case WrongBytes():
                self._count(end - start)
                self.wfile.write(bytes(end - start))
            case Cut(after):
                self._send(file, start, min(end, start + after))
                self.wfile.flush()
                self.close_connection = True
            case Stall(after, seconds):
                self._send(file, start, min(end, start + after))
                time.sleep(seconds)
                self.close_connection = True
            case _:
                self._send(file, start, end)

    def _send(self, file: File, start: int, end: int) -> None:
        with file.source.open("rb") as source:
            source.seek(start)
            left = end - start
            while left and (chunk := source.read(min(1 << 16, left))):
                self.server.wait_turn(len(chunk))
                self.wfile.write(chunk)
                self._count(len(chunk))
                left -= len(chunk)

    def _count(self, count: int) -> None:
        with self.server.count_lock:
            self.server.served[unquote(urlsplit(self.path).path)] += count

    def _answer_or_fail(self, answer: object) -> None:
        assert callable(answer)
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append((self.command, path, self.headers.get("Range"), self.headers.get("Authorization")))
        self.fault = self._take(path)
        match self.fault:
            case Status(status, headers):
                self._refuse(HTTPStatus(status), None, "told to fail", dict(headers))
            case Says(body):
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())
            case Redirect(to):
                self.send_response(302)
                self.send_header("Location", to + path)
                self.send_header("Content-Length", "0")
                self.end_headers()
            case _:
                answer()

    def _take(self, path: str) -> Fault | None:
        found = next((fault for part, fault in self.server.always.items() if part in path), None)
        for part, faults in self.server.faults.items():
            if part in path and faults and (self.command == "GET" or isinstance(faults[0], Status)):
                found = faults.popleft()
                break
        if self.command == "HEAD" and not isinstance(found, Status):
            return None
        return found


def _range(header: str | None) -> tuple[int, int | None]:
    """Bytes [start, end) of a Range header."""
    if not header:
        return 0, None
    start, _, last = header.removeprefix("bytes=").partition("-")
    return int(start), int(last) + 1 if last else None
