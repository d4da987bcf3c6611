"""A small Hub that serves real repositories from a folder over real HTTP, so that the real `huggingface_hub` runs.

It answers what reading needs (revisions, trees, files with Range, errors, gated repositories) and nothing else: no
uploads, no Xet, no web pages. For the demo and the tests, on loopback.
"""

import argparse
import contextlib
import json
import re
import sys
import threading
import time
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from deployments.hub.repositories import Access, Commit, File, Repositories

_CHUNK = 1 << 18
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class HubServer(ThreadingHTTPServer):
    """The server; `serve_forever()` runs it, `endpoint` is what `HF_ENDPOINT` should be.

    Args:
        root: the folder with `models/` and `datasets/` (see `Repositories`).
        port: 0 picks a free one.
        rate: bytes per second of all downloads together; None does not limit.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, root: Path, port: int = 0, rate: float | None = None, host: str = "127.0.0.1") -> None:
        self.repositories = Repositories(root)
        self.rate = rate
        self._free_at = 0.0
        self._turn = threading.Lock()
        super().__init__((host, port), self.handler())

    def handler(self) -> "type[HubHandler]":
        return HubHandler

    @property
    def endpoint(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host if isinstance(host, str) else host.decode()}:{port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away, killed or content with what it has, is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def wait_turn(self, count: int) -> None:
        """Sleep until `count` more bytes (of anyone) fit the rate."""
        if not self.rate:
            return
        with self._turn:
            now = time.monotonic()
            start = max(now, self._free_at)
            self._free_at = start + count / self.rate
        time.sleep(start - now)


class HubHandler(BaseHTTPRequestHandler):
    """One connection. Paths and headers as huggingface_hub 2.4 uses them (read in its source and observed)."""

    server: HubServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_version = "slipway-hub"

    def do_GET(self) -> None:
        self._route()

    def do_HEAD(self) -> None:
        self._route()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in http.server
        """Silent: a demo's log is for people."""

    def send_body(self, file: File, start: int, end: int) -> None:
        """Send bytes [start, end) of a file."""
        with file.source.open("rb") as source:
            source.seek(start)
            left = end - start
            while left and (chunk := source.read(min(_CHUNK, left))):
                self.server.wait_turn(len(chunk))
                self.wfile.write(chunk)
                left -= len(chunk)

    def _route(self) -> None:
        path = unquote(urlsplit(self.path).path).strip("/")
        try:
            if path.startswith("api/"):
                self._api(path.removeprefix("api/"))
            elif "/resolve/" in path:
                self._file(path)
            else:
                self._refuse(HTTPStatus.NOT_FOUND, None, "Not a call that this Hub answers.")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _api(self, path: str) -> None:
        kind, _, rest = path.partition("/")
        name, verb, revision = _split(rest, ("revision", "tree", "refs", "auth-check"))
        access = self._readable(kind, name)
        if access is None:
            return
        if verb == "refs":
            commits = {branch: self._commit(kind, name, branch) for branch in self._branches(kind, name)}
            refs = [
                {"name": branch, "ref": f"refs/heads/{branch}", "targetCommit": commit.sha}
                for branch, commit in commits.items()
                if commit
            ]
            self._answer({"branches": refs, "converts": [], "tags": []})
            return
        if verb == "auth-check":
            if not access.gated or self._token() in access.tokens:
                self._answer({})
            else:
                self._refuse_gated(name)
            return
        # `…/tree/<revision>/<folder>` is not needed: huggingface_hub lists a repository from its root
        commit = self._commit(kind, name, revision or "main")
        if commit is None:
            self._refuse(HTTPStatus.NOT_FOUND, "RevisionNotFound", f"Invalid rev id: {revision}")
        elif verb == "tree":
            self._answer([file.as_tree_entry() for file in commit.files.values()])
        else:
            siblings = [{"rfilename": file} for file in commit.files]
            gated = "manual" if access.gated else False
            self._answer(
                {"id": name, "sha": commit.sha, "siblings": siblings, "gated": gated, "private": access.private}
            )

    def _file(self, path: str) -> None:
        kind = "models"
        if path.startswith("datasets/"):
            kind, path = "datasets", path.removeprefix("datasets/")
        name, _, rest = path.partition("/resolve/")
        revision, _, wanted = rest.partition("/")
        access = self._readable(kind, name)
        if access is None:
            return
        if access.gated and self._token() not in access.tokens:
            self._refuse_gated(name)
            return
        commit = self._commit(kind, name, revision)
        if commit is None:
            self._refuse(HTTPStatus.NOT_FOUND, "RevisionNotFound", f"Invalid rev id: {revision}")
        elif wanted not in commit.files:
            self._refuse(HTTPStatus.NOT_FOUND, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit.sha})
        else:
            self._send_file(commit, commit.files[wanted])

    def _send_file(self, commit: Commit, file: File) -> None:
        start, end = 0, file.size
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        if asked:
            start = int(asked[1])
            end = min(int(asked[2]) + 1 if asked[2] else file.size, file.size)
            if start >= end:
                self._refuse(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, None, "No such bytes.")
                return
        self.send_response(HTTPStatus.PARTIAL_CONTENT if asked else HTTPStatus.OK)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{file.size}")
        self.send_header("Content-Length", str(end - start))
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{file.etag}"')
        self.send_header("X-Repo-Commit", commit.sha)
        if file.sha256:
            self.send_header("X-Linked-ETag", f'"{file.sha256}"')
            self.send_header("X-Linked-Size", str(file.size))
        self.end_headers()
        if self.command == "GET":
            self.send_body(file, start, end)

    def _branches(self, kind: str, name: str) -> list[str]:
        return list(self.server.repositories.branches(kind, name))

    def _commit(self, kind: str, name: str, revision: str) -> Commit | None:
        return self.server.repositories.commit(kind, name, revision)

    def _readable(self, kind: str, name: str) -> Access | None:
        """Who may read the repository, or None after the refusal has been sent.

        The Hub answers 401 to anonymous requests for what is missing or private, and 404 to those with a token.
        """
        access = self.server.repositories.access(kind, name)
        token = self._token()
        if access and not (access.private and token not in access.tokens):
            return access
        status = HTTPStatus.NOT_FOUND if token else HTTPStatus.UNAUTHORIZED
        self._refuse(status, "RepoNotFound", "Repository not found")
        return None

    def _token(self) -> str | None:
        return self.headers.get("Authorization", "").removeprefix("Bearer ") or None

    def _refuse_gated(self, name: str) -> None:
        status = HTTPStatus.FORBIDDEN if self._token() else HTTPStatus.UNAUTHORIZED
        self._refuse(status, "GatedRepo", f"Access to {name} is restricted.")

    def _refuse(
        self, status: HTTPStatus, code: str | None, message: str, headers: dict[str, str] | None = None
    ) -> None:
        extra = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {}) | (headers or {})
        self._answer({"error": message}, status, extra)

    def _answer(
        self, answer: object, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None
    ) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for header, value in (headers or {}).items():
            self.send_header(header, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _split(path: str, verbs: Sequence[str]) -> tuple[str, str | None, str | None]:
    """`org/name/tree/main` → `("org/name", "tree", "main")`; without a verb the whole path is a name."""
    pieces = path.split("/")
    for place in (1, 2):
        if len(pieces) > place and pieces[place] in verbs:
            return "/".join(pieces[:place]), pieces[place], "/".join(pieces[place + 1 :]) or None
    return path, None, None


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m deployments.hub.server", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="folder with models/ and datasets/")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one (default)")
    parser.add_argument("--port-file", type=Path, help="write the port here once it is served")
    parser.add_argument("--rate", type=float, help="bytes per second of all downloads together")
    options = parser.parse_args(argv)
    with HubServer(options.root, options.port, options.rate) as server:
        if options.port_file:
            draft = options.port_file.with_name(options.port_file.name + ".tmp")
            draft.write_text(str(server.server_address[1]), encoding="utf-8")
            draft.replace(options.port_file)
        print(server.endpoint, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
