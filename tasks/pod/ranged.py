"""Reads the bytes of a URL from an offset on, over connections that are kept between files.

Plain `http.client`: a verified download spends its CPU time on hashing, not on a client's layers.
"""

import http.client
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 10
_PORTS = {"http": 80, "https": 443}

Origin = tuple[str, str, int]


class StatusError(Exception):
    """An answer that is no bytes: its status and headers decide what happens next."""

    def __init__(self, status: int, headers: http.client.HTTPMessage) -> None:
        super().__init__(f"HTTP status {status}")
        self.status = status
        self.headers = headers


class Reader:
    """The connections of one thread.

    Args:
        timeout: seconds without a byte after which a read fails with TimeoutError.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._kept: dict[Origin, http.client.HTTPConnection] = {}

    @contextmanager
    def open(self, url: str, headers: dict[str, str], offset: int) -> Iterator[tuple[http.client.HTTPResponse, int]]:
        """Yield the response and the offset at which its bytes start: `offset`, or 0 if the server ignores ranges.

        The authorization header goes to the origin of `url` only, not to where it redirects.

        Raises:
            StatusError: any other answer than 200 and 206.
            OSError, http.client.HTTPException: the connection failed.
        """
        sent = headers | {"Accept-Encoding": "identity"} | ({"Range": f"bytes={offset}-"} if offset else {})
        for _ in range(_MOST_REDIRECTS):
            response = self._request(urlsplit(url), sent)
            try:
                location = response.headers.get("Location")
                if response.status in _REDIRECTS and location:
                    response.read()
                    target = urljoin(url, location)
                    if _origin(urlsplit(target)) != _origin(urlsplit(url)):
                        sent = {name: value for name, value in sent.items() if name.lower() != "authorization"}
                    url = target
                    continue
                if response.status not in (200, 206):
                    response.read()
                    raise StatusError(response.status, response.headers)
                yield response, _start(response, offset)
                return
            finally:
                if not response.isclosed():  # bytes are left on the wire: the connection can not be used again
                    self._drop(_origin(urlsplit(url)))
        raise http.client.HTTPException(f"more than {_MOST_REDIRECTS} redirects")

    def close(self) -> None:
        for origin in list(self._kept):
            self._drop(origin)

    def _request(self, url: SplitResult, headers: dict[str, str]) -> http.client.HTTPResponse:
        origin = _origin(url)
        reused = origin in self._kept
        connection = self._kept.get(origin) or self._connect(url)
        self._kept[origin] = connection
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        if url.scheme == "http" and _proxy(url):
            target = url.geturl()
        try:
            connection.request("GET", target, headers=headers)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self._drop(origin)
            if reused and not isinstance(error, TimeoutError):  # closed by the server while it was idle
                return self._request(url, headers)
            raise

    def _connect(self, url: SplitResult) -> http.client.HTTPConnection:
        proxy = _proxy(url)
        host, port = _origin(proxy or url)[1:]
        if url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self._timeout)
        import httpx2

        # the certificates that huggingface_hub trusts
        connection = http.client.HTTPSConnection(host, port, timeout=self._timeout, context=httpx2.create_ssl_context())
        if proxy:
            sign_in = {}
            if proxy.username:
                pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
                sign_in["Proxy-Authorization"] = "Basic " + b64encode(pair.encode()).decode()
            connection.set_tunnel(_origin(url)[1], _origin(url)[2], sign_in)
        return connection

    def _drop(self, origin: Origin) -> None:
        if connection := self._kept.pop(origin, None):
            connection.close()


def _origin(url: SplitResult) -> Origin:
    return url.scheme, url.hostname or "", url.port or _PORTS.get(url.scheme, 80)


def _proxy(url: SplitResult) -> SplitResult | None:
    if urllib.request.proxy_bypass(url.hostname or ""):
        return None
    proxy = urllib.request.getproxies().get(url.scheme)
    return urlsplit(proxy if "//" in proxy else f"http://{proxy}") if proxy else None


def _start(response: http.client.HTTPResponse, offset: int) -> int:
    if response.status == 200:
        return 0
    said = response.headers.get("Content-Range", "")
    start = said.removeprefix("bytes ").partition("-")[0]
    if not start.isdigit() or int(start) != offset:
        raise http.client.HTTPException(f"asked for bytes from {offset}, got Content-Range {said!r}")
    return offset
