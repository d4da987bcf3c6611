"""Requests to a Kubernetes API server: plain JSON in and out, patient where waiting helps, our errors where not.

The official client brings configuration, credentials and connections; its models are left out, because what a server
answers must be readable also when it is newer than they are.
"""

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocks.clusters.errors import SlipwayError

if TYPE_CHECKING:
    from kubernetes.client import Configuration

Json = dict[str, Any]

_PATIENCE_SECONDS = 120
_PASSING = (429, 500, 502, 503, 504)


class ApiError(SlipwayError):
    """The API server said no.

    Args:
        status: of HTTP.
        reason: Kubernetes' word for it: NotFound, AlreadyExists, Forbidden, …
    """

    def __init__(self, what: str, remedy: str, status: int, reason: str) -> None:
        super().__init__(what, remedy)
        self.status = status
        self.reason = reason


class UnreachableError(SlipwayError):
    """The API server did not answer for as long as was waited."""


class Api:
    """One API server, as one kubeconfig's user sees it. Safe to use from several threads.

    Args:
        name: the cluster's, for messages.
        kubeconfig, context: as in the settings.
        patience_seconds: how long to try again while the server is away or overloaded.
    """

    def __init__(
        self, name: str, kubeconfig: str | None, context: str | None, patience_seconds: float = _PATIENCE_SECONDS
    ) -> None:
        from kubernetes.client.rest import RESTClientObject

        self.name = name
        self.patience_seconds = patience_seconds
        self.configuration = _configure(name, kubeconfig, context)
        self.requests = 0
        self._rest: Any = RESTClientObject(self.configuration)
        self._lock = threading.Lock()

    @property
    def host(self) -> str:
        return str(self.configuration.host)

    def headers(self) -> dict[str, str]:
        """The credentials; a token that is about to end is renewed."""
        with self._lock:
            settings: Any = self.configuration.auth_settings()
        return {found["key"]: found["value"] for found in settings.values() if found["value"]}

    def get(self, path: str, query: Mapping[str, str] | None = None, *, accept: str = "application/json") -> Json:
        return self._json("GET", path, query, accept=accept)

    def find(self, path: str) -> Json | None:
        """The object, or None if there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def items(self, path: str, query: Mapping[str, str] | None = None) -> list[Json]:
        """All of a list, however many pages it has."""
        found: list[Json] = []
        ask = {"limit": "500", **(query or {})}
        while True:
            page = self.get(path, ask)
            found += page.get("items") or []
            following = page["metadata"].get("continue")
            if not following:
                return found
            ask["continue"] = following

    def post(self, path: str, body: Json, *, dry_run: bool = False) -> Json:
        """Create an object, or only ask whether it could be."""
        return self._json("POST", path, {"fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}, body)

    def patch(self, path: str, body: Json) -> Json:
        """A merge patch: null removes a key, lists are replaced."""
        return self._json("PATCH", path, None, body, content="application/merge-patch+json")

    def delete(self, path: str, *, grace_seconds: int | None = None, uid: str | None = None) -> bool:
        """Ask for an object to be deleted; False if there is none (or another one, where `uid` is given)."""
        body: Json = {"propagationPolicy": "Background"}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            self._json("DELETE", path, None, body)
        except ApiError as error:
            if error.status == 404 or (error.status == 409 and uid is not None):
                return False
            raise
        return True

    def text(self, path: str, query: Mapping[str, str]) -> Iterator[bytes]:
        """An answer that is no JSON, in pieces: a log."""
        answer = self._request("GET", path, query, None, {"Accept": "*/*"})
        try:
            yield from answer.stream(2**16)
        finally:
            answer.release_conn()

    def watch(self, path: str, query: Mapping[str, str], timeout_seconds: float) -> Iterator[Json]:
        """Events of one watch until it ends, for whatever reason; it is asked for once and never tried again."""
        ask = {**query, "watch": "true", "timeoutSeconds": str(max(1, round(timeout_seconds)))}
        import urllib3

        try:
            answer = self._once("GET", path, ask, None, {"Accept": "application/json"}, timeout_seconds + 5)
            try:
                for line in _lines(answer.stream(2**14, decode_content=True)):
                    yield json.loads(line)
            finally:
                answer.close()
        except (urllib3.exceptions.HTTPError, OSError):
            return

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        *,
        accept: str = "application/json",
        content: str = "application/json",
    ) -> Json:
        answer = self._request(method, path, query, body, {"Accept": accept, "Content-Type": content})
        found: Json = json.loads(answer.data)
        return found

    def _request(
        self, method: str, path: str, query: Mapping[str, str] | None, body: Json | None, headers: dict[str, str]
    ) -> Any:
        """Try until there is an answer that waiting would not change.

        A create that was answered by a broken connection may have happened: whoever creates looks at a 409.
        """
        import urllib3

        give_up = time.monotonic() + self.patience_seconds
        wait = 0.2
        while True:
            try:
                answer = self._once(method, path, query, body, headers, 60)
            except (urllib3.exceptions.HTTPError, OSError) as error:
                if time.monotonic() + wait > give_up:
                    raise UnreachableError(
                        f"The API server of cluster {self.name!r} at {self.host} does not answer: {error}.",
                        "Look whether it is up and the kubeconfig names the right one.",
                    ) from error
            else:
                if answer.status < 400:
                    return answer
                refusal = self.refusal(answer.status, answer.data)
                if answer.status not in _PASSING or _for_good(refusal) or time.monotonic() + wait > give_up:
                    raise refusal
                wait = max(wait, float(answer.headers.get("Retry-After") or 0))
            time.sleep(wait)
            wait = min(wait * 2, 5)

    def _once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Json | None,
        headers: dict[str, str],
        timeout_seconds: float,
    ) -> Any:
        from urllib.parse import urlencode

        self.requests += 1
        url = f"{self.host}{path}" + (f"?{urlencode(query)}" if query else "")
        answer = self._rest.request(
            method, url, headers={**headers, **self.headers()}, body=body, _request_timeout=(10, timeout_seconds)
        )
        return answer.response

    def refusal(self, status: int, body: bytes) -> ApiError:
        """What an answer says that is no success."""
        try:
            said: Json = json.loads(body)
        except ValueError:
            said = {"message": body.decode(errors="replace")[:500]}
        message = str(said.get("message", "")).rstrip(".: ") or f"HTTP {status}"
        remedy = _REMEDIES.get(status, "Mend what it names, and ask again.")
        return ApiError(f"Cluster {self.name!r} refuses: {message}.", remedy, status, str(said.get("reason", "")))


_REMEDIES = {
    401: "Log in again, or mend the credentials in the kubeconfig.",
    403: "Ask whoever runs the cluster for that right, or for a larger quota; see docs/kubernetes.md.",
    404: "Look whether the namespace exists: the owner names it.",
}


def _for_good(refusal: ApiError) -> bool:
    """A 500 of an admission webhook or of a create without a service account passes; an invalid one does not."""
    return refusal.reason in ("Invalid", "Forbidden", "BadRequest")


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines


def _configure(name: str, kubeconfig: str | None, context: str | None) -> "Configuration":
    from kubernetes import config as untyped
    from kubernetes.client import Configuration

    config: Any = untyped

    configuration = Configuration()
    path = kubeconfig or os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ and not kubeconfig and not Path(path).exists()
    try:
        if in_pod:
            config.load_incluster_config(client_configuration=configuration)
        else:
            config.load_kube_config(
                config_file=str(Path(path).expanduser()) if kubeconfig else path,
                context=context,
                client_configuration=configuration,
            )
    except (config.ConfigException, OSError) as error:
        raise SlipwayError(
            f"Cluster {name!r} can not be reached: {error}", f"Mend the kubeconfig {path}, or name another one."
        ) from error
    return configuration
