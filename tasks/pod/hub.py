"""Asking the Hub, through huggingface_hub: bounded retries, and errors that say what to do."""

import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tasks.pod.errors import BadInputError, NotThereError, PodError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

Answer = TypeVar("Answer")

_REPO = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)

TIMEOUT = 5.0
"""Seconds for one metadata request."""

_PATIENCE = 8.0
"""Seconds after which a Hub that does not answer is reported as unreachable."""

_RATE_LIMIT_PATIENCE = 300.0
"""Seconds that may be spent waiting because the Hub asked for it (429, Retry-After)."""

WHERE_TOKEN = "the hub's token (slipway.toml, or its block in Prefect)"  # noqa: S105 - no token
"""Where staging gets an HF_TOKEN from: not from the environment of whoever asks, unless that is where it is kept."""

_NO_HUB = (AttributeError, KeyError, TypeError, ValueError)
"""What huggingface_hub raises when it is sent HTML, or JSON of another shape."""


class AccessError(PodError):
    """The Hub refuses: gated, private, or a token that it does not accept. Asking again does not help."""


class UnreachableError(PodError):
    """The Hub does not answer, or answers with server errors. Asking again later may help."""


@dataclass(frozen=True)
class Source:
    """What is asked for on the Hub.

    Args:
        repo_type: "model" or "dataset".
        repo: `org/name`, or `name`.
        revision: branch, tag or 40-hex commit.
    """

    repo_type: str
    repo: str
    revision: str

    def __str__(self) -> str:
        return f"{self.repo_type} {self.repo!r}"


def source(repo_type: str, repo: str, revision: str) -> Source:
    """Raises: BadInputError if this can not name anything on the Hub."""
    if repo_type not in ("model", "dataset"):
        raise BadInputError(f"{repo_type!r} is no type of Hub repository.", 'Use "model" or "dataset".')
    if not _REPO.fullmatch(repo) or ".." in repo or "--" in repo:
        raise BadInputError(f"{repo!r} is no name of a Hub repository.", "Use org/name.")
    if not revision or any(ord(c) <= 32 or ord(c) == 127 for c in revision) or ".." in revision:
        raise BadInputError(f"{revision!r} can not be a revision.", "Name a branch, a tag or a commit.")
    return Source(repo_type, repo, revision)


def endpoint() -> str:
    """The Hub of this process: `$HF_ENDPOINT`, else the public one."""
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def ask(
    asked: Source, question: Callable[["HfApi"], Answer], *, rate_limit_patience: float = _RATE_LIMIT_PATIENCE
) -> Answer:
    """Put one question to the Hub.

    What can not change is never asked again (401, 403, 404, what no Hub says); a rate limit is waited for as long as
    the Hub says; a Hub that does not answer is given up after about ten seconds.

    Args:
        rate_limit_patience: seconds that may be spent waiting because the Hub asked for it (429, Retry-After).

    Raises:
        AccessError, NotThereError, UnreachableError, PodError: with a remedy.
    """
    import httpx2
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    api = HfApi(endpoint=endpoint(), library_name="slipway")
    give_up = time.monotonic() + _PATIENCE
    limit_left = rate_limit_patience
    pause = 0.5
    while True:
        try:
            return question(api)
        except OfflineModeIsEnabled:
            raise PodError(
                f"The Hub can not be asked for {asked}: HF_HUB_OFFLINE is set.", "Unset it where staging runs."
            ) from None
        except HfHubHTTPError as error:
            status = error.response.status_code
            if status == 429 and (wait := retry_after(error.response.headers.get("Retry-After"))) <= limit_left:
                print(f"the Hub limits requests and asks to wait {wait:.0f} s", file=sys.stderr, flush=True)
                limit_left -= wait
                give_up += wait
                time.sleep(wait)
                continue
            if status < 500 or time.monotonic() + pause > give_up:
                raise refusal(asked, error) from error
        except (httpx2.TransportError, OSError) as error:
            hopeless = isinstance(error, httpx2.UnsupportedProtocol) or "CERTIFICATE_VERIFY_FAILED" in str(error)
            if hopeless or time.monotonic() + pause > give_up:
                raise unreachable(error) from error
        except _NO_HUB as error:
            raise UnreachableError(
                f"What answers at {endpoint()} is no Hub: it says of the {asked} what none says ({_brief(error)}).",
                "Check the hub's endpoint (slipway.toml, or HF_ENDPOINT) and the proxies on the way to it.",
            ) from error
        except httpx2.HTTPError as error:  # redirected in circles, or not to be decoded
            raise unreachable(error) from error
        time.sleep(pause)
        pause *= 2


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"


def retry_after(header: str | None) -> float:
    """Seconds to wait after a 429; ten when the Hub does not say (or gives a date)."""
    text = (header or "").strip()
    return float(text) if text.isdigit() else 10.0


def unreachable(error: Exception) -> UnreachableError:
    return UnreachableError(
        f"The Hub at {endpoint()} can not be reached: {error or type(error).__name__}.",
        "Check the hub's endpoint (slipway.toml, or HF_ENDPOINT) and the network where staging runs, then ask again.",
    )


def refusal(asked: Source, error: Exception) -> PodError:
    """What an error answer of the Hub means for the person who asked."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RemoteEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    page = f"{endpoint()}/{'datasets/' if asked.repo_type == 'dataset' else ''}{asked.repo}"
    token = token_is_there()
    if isinstance(error, GatedRepoError):
        who = "the account of the HF_TOKEN in use has no access" if token else "no HF_TOKEN was given"
        then = f"Ask for access at {page}" + ("." if token else f", and name a token of that account as {WHERE_TOKEN}.")
        return AccessError(f"The {asked} is gated, and {who}.", then)
    if isinstance(error, RepositoryNotFoundError):
        seen = "is missing, or private and not open to the HF_TOKEN in use" if token else "is missing or private"
        then = "Check the name and the type" + ("." if token else f"; for a private one, name {WHERE_TOKEN}.")
        return NotThereError(f"The {asked} {seen} at {endpoint()}.", then)
    if isinstance(error, RevisionNotFoundError):
        return NotThereError(f"The {asked} has no revision {asked.revision!r}.", _name_branches(asked))
    if isinstance(error, RemoteEntryNotFoundError):
        return NotThereError(f"A file of the {asked} is gone at {asked.revision}.", "Resolve the revision again.")
    status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
    if status in (401, 403):
        what = "does not accept the HF_TOKEN in use" if token else "asks for a token"
        said = getattr(error, "server_message", None)
        reason = f"{status}: {said}" if said else f"{status}"
        return AccessError(
            f"The Hub {what} for the {asked} ({reason}).", f"Name a valid one with read access as {WHERE_TOKEN}."
        )
    if status == 429:
        return UnreachableError(
            f"The Hub limits requests (429) for the {asked}{_for_how_long(error)}.",
            "Ask again later." if token else f"Ask again later, or name {WHERE_TOKEN}: the limits are higher then.",
        )
    if status >= 500:
        return UnreachableError(f"The Hub at {endpoint()} answers {status} for the {asked}.", "Ask again later.")
    return PodError(f"The Hub refuses the {asked}: {str(error).strip()}", "Check name, type and revision.")


def _for_how_long(error: Exception) -> str:
    header = error.response.headers.get("Retry-After") if hasattr(error, "response") else None
    return f" and asks to wait {retry_after(header):.0f} s" if header else ""


def token_is_there() -> bool:
    from huggingface_hub import get_token

    return bool(get_token())


def _name_branches(asked: Source) -> str:
    from huggingface_hub import HfApi

    try:
        refs = HfApi(endpoint=endpoint()).list_repo_refs(asked.repo, repo_type=asked.repo_type)
    except Exception:
        return "Check the branch, the tag or the commit."
    names = [ref.name for ref in [*refs.branches, *refs.tags]]
    shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    return f"It has: {shown}." if shown else "It has no branches."
