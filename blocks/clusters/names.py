"""Names that every cluster accepts: RFC 1123 labels. Not for paths on a volume, which `tasks.pod.layout` knows."""

import difflib
import hashlib
import re
from collections.abc import Collection

from blocks.clusters.errors import UsageError

LONGEST = 63
_FEW = 8
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def check_name(kind: str, name: str) -> str:
    """Return `name` if it is an RFC 1123 label, the rule for volumes, runs and owners.

    Args:
        kind: the word for what is named, for the message: "volume", "run", "owner".
        name: the name to check.

    Raises:
        UsageError: the name breaks the rule; the message says how.
    """
    if len(name) > LONGEST:
        problem = f"has {len(name)} characters, {LONGEST} at most are allowed"
    elif _LABEL.fullmatch(name):
        return name
    elif name.startswith("-") or name.endswith("-"):
        problem = "starts or ends with a hyphen"
    elif name.lower() != name and name.isascii():
        problem = "has capital letters"
    elif not name:
        problem = "is empty"
    else:
        problem = "has characters other than lower-case letters, digits and hyphens"
    raise UsageError(
        f"The {kind} name {name!r} {problem}.",
        "Use lower-case letters, digits and hyphens, starting and ending with a letter or digit.",
    )


def meant(name: str, there: Collection[str], what: str) -> str:
    """A remedy for a name that is not there: the nearest one, else the first few that are.

    Args:
        what: how they are called, such as "Volumes".
    """
    if near := difflib.get_close_matches(name, there, 1):
        return f"Did you mean {near[0]!r}?"
    more = f" and {len(there) - _FEW} more" if len(there) > _FEW else ""
    return f"{what} there are: {', '.join(sorted(there)[:_FEW]) or 'none yet'}{more}."


def fit_name(*parts: str, longest: int = LONGEST) -> str:
    """Join parts into one RFC 1123 label, the same for the same parts, different for different ones (once joined).

    What does not fit is cut and ends in a hash of the whole; so do parts with characters that had to be replaced.

    Args:
        parts: the parts, joined by hyphens.
        longest: the longest result, in characters; at least 10.
    """
    raw = "-".join(parts)
    if len(raw) <= longest and _LABEL.fullmatch(raw):
        return raw
    clean = re.sub(r"[^a-z0-9]+", "-", raw.lower()).strip("-")
    mark = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
    return f"{clean[: longest - 9].rstrip('-')}-{mark}".lstrip("-")
