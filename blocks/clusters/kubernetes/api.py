"""Requests to a Kubernetes API server: plain JSON in and out, patient where waiting helps, our errors where not.

The official client brings configuration, credentials and connections; its models are left out, because what a server
answers must be readable also when it is newer than they are.
"""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from blocks.clusters.errors import SlipwayError
from blocks.clusters.kubernetes.credentials import Credentials, CredentialsError

if TYPE_CHECKING:
    from kubernetes.client import Configuration

Json = dict[str, Any]

_PATIENCE_SECONDS = 120
_OUTLAST_SECONDS = 24 * 3600
_LONGEST_PAUSE_SECONDS = 30
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


class RefusedCredentialsError(ApiError, CredentialsError):
    """The API server does not take the credentials: a 401."""


class UnreachableError(SlipwayError):
    """The API server did not answer for as long as was waited."""


class CutOffError(SlipwayError):
    """The connection broke in the middle of an answer."""


class Api:
    """One API server, as one kubeconfig's user sees it. Safe to use from several threads.

    Args:
        name: the cluster's, for messages.
        kubeconfig, context: as in the settings.
        patience_seconds: how long to try again while the server is away or overloaded.
        say: for whoever follows something for hours. Where it is given, a server that has answered before and goes
            away, or takes the credentials no more, is waited for a day; `say` is told so, once each time.

    Raises:
        CredentialsError: the kubeconfig can not be used.
    """

    def __init__(
        self,
        name: str,
        kubeconfig: str | None,
        context: str | None,
        patience_seconds: float = _PATIENCE_SECONDS,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.name = name
        self.patience_seconds = patience_seconds
        self.requests = 0
        self._credentials = Credentials(name, kubeconfig, context)
        self._say = say
        self._has_answered = self._said = False
        self._lock = threading.Lock()
        self._rest = self._client()

    @property
    def configuration(self) -> "Configuration":
        return self._credentials.configuration

    @property
    def host(self) -> str:
        return str(self.configuration.host)

    def headers(self) -> dict[str, str]:
        """The credentials; a token that is about to end is renewed. Raises: CredentialsError."""
        return self._credentials.headers()

    def again(self, refusal: SlipwayError, since: float, tries: int) -> None:
        """After credentials that were not taken: return when others, or the same once more, are worth a try.

        Args:
            since: when the request was made first, on the monotonic clock.
            tries: how often they were refused before.

        Raises:
            CredentialsError: `refusal`, or why there are no others.
        """
        try:
            with self._lock:
                renewed = self._credentials.renew()
                if renewed:
                    self._rest = self._client()
        except CredentialsError as error:
            refusal, renewed = error, False
        if renewed and not tries:
            return
        self._outlast(refusal, since)
        time.sleep(min(2**tries, _LONGEST_PAUSE_SECONDS))

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

    def patch(self, path: str, body: Json, *, patience_seconds: float | None = None) -> Json:
        """A merge patch: null removes a key, lists are replaced.

        Args:
            patience_seconds: less than usual, for whoever knows another way.
        """
        content, asked = "application/merge-patch+json", patience_seconds
        return self._json("PATCH", path, None, body, content=content, patience_seconds=asked)

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
        """An answer that is no JSON, in pieces: a log. Raises: CutOffError."""
        import urllib3

        answer = self._request("GET", path, query, None, {"Accept": "*/*"}, whole=False)
        try:
            yield from answer.stream(2**16)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            what = f"The API server of cluster {self.name!r} at {self.host} broke off: {_said(error)}."
            raise CutOffError(what, "Ask again.") from error
        finally:
            answer.close()  # whoever reads no further must not leave the rest to the next request

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
        except (urllib3.exceptions.HTTPError, OSError, SlipwayError):
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
        patience_seconds: float | None = None,
    ) -> Json:
        headers = {"Accept": accept, "Content-Type": content}
        answer = self._request(method, path, query, body, headers, patience_seconds)
        found: Json = json.loads(answer.data)
        return found

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Json | None,
        headers: dict[str, str],
        patience_seconds: float | None = None,
        *,
        whole: bool = True,
    ) -> Any:
        """Try until there is an answer that waiting would not change.

        A create that was answered by a broken connection may have happened: whoever creates looks at a 409.

        Args:
            whole: read all of the answer; one that breaks off is none.
        """
        import urllib3

        since = time.monotonic()
        give_up = since + (self.patience_seconds if patience_seconds is None else patience_seconds)
        wait, tries = 0.2, 0
        while True:
            try:
                answer = self._once(method, path, query, body, headers, 60)
                said = answer.data if whole or answer.status >= 400 else b""
            except (urllib3.exceptions.HTTPError, OSError) as error:
                if not _passes(error):
                    self.again(self._unsafe(error), since, tries)
                    tries += 1
                    continue
                if time.monotonic() + wait > give_up:
                    self._outlast(self._unreachable(error), since)
            except CredentialsError as error:
                self.again(error, since, tries)
                tries += 1
                continue
            else:
                if answer.status < 400:
                    self._has_answered, self._said = True, False
                    return answer
                refusal = self.refusal(answer.status, said)
                if isinstance(refusal, CredentialsError):
                    self.again(refusal, since, tries)
                    tries += 1
                    continue
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

    def _client(self) -> Any:
        from kubernetes.client.rest import RESTClientObject

        try:
            return RESTClientObject(self.configuration)
        except OSError as error:  # a certificate that is none
            raise self._unsafe(error) from error

    def _outlast(self, error: SlipwayError, since: float) -> None:
        """Raise an error that may pass, unless somebody follows what goes on without us."""
        if self._say is None or not self._has_answered or time.monotonic() - since > _OUTLAST_SECONDS:
            raise error
        if not self._said:
            self._said = True
            self._say(f"{error} What runs there goes on; it is looked at again once that is mended.")

    def _unreachable(self, error: Exception) -> UnreachableError:
        return UnreachableError(
            f"The API server of cluster {self.name!r} at {self.host} does not answer: {_said(error)}.",
            "Look whether it is up and the kubeconfig names the right one.",
        )

    def _unsafe(self, error: Exception) -> CredentialsError:
        where = f"the API server of cluster {self.name!r} at {self.host}"
        return CredentialsError(
            f"No safe connection to {where} can be made: {_said(error)}.",
            "Mend the certificates that the kubeconfig names.",
        )

    def refusal(self, status: int, body: bytes) -> ApiError:
        """What an answer says that is no success."""
        try:
            said: Json = json.loads(body)
        except ValueError:
            said = {"message": body.decode(errors="replace")[:500]}
        message = " ".join(str(said.get("message", "")).split()).rstrip(".: ") or f"HTTP {status}"
        if status == 401 or (status == 403 and '"system:anonymous"' in message):  # who brings none may be that one
            what = f"Cluster {self.name!r} does not take the credentials ({message}): they are wrong, or have expired."
            return RefusedCredentialsError(what, self._credentials.remedy, status, str(said.get("reason", "")))
        remedy = _REMEDIES.get(status, "Mend what it names, and ask again.")
        return ApiError(f"Cluster {self.name!r} refuses: {message}.", remedy, status, str(said.get("reason", "")))


_REMEDIES = {
    403: "Ask whoever runs the cluster for that right, or for a larger quota; see docs/kubernetes.md.",
    404: "Look whether the namespace exists: the owner names it.",
}


def _for_good(refusal: ApiError) -> bool:
    """A 500 of an admission webhook or of a create without a service account passes; an invalid one does not."""
    return refusal.reason in ("Invalid", "Forbidden", "BadRequest")


def _passes(error: Exception) -> bool:
    """Whether a connection that could not be made may be made later: it was cut, and no certificate is bad."""
    cause: object = getattr(error, "reason", error)  # of urllib3's for several tries
    while isinstance(cause, Exception) and not isinstance(cause, ssl.SSLError) and cause.args:
        cause = cause.args[-1]
    cut = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    return not isinstance(cause, ssl.SSLError) or isinstance(cause, cut)


def _said(error: Exception) -> str:
    """What a connection error says, without the address that it says it of."""
    cause = getattr(error, "reason", None) or error
    return " ".join(str(cause).split()).split("): ", 1)[-1].rstrip(".")


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
