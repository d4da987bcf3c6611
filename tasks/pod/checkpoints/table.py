"""All formats, the more telling ones first: a tree is of the first that recognises it."""

from tasks.pod.checkpoints import tiny
from tasks.pod.checkpoints.format import Format
from tasks.pod.checkpoints.tree import Tree
from tasks.pod.errors import BadInputError

FORMATS: tuple[Format, ...] = (tiny.FORMAT,)

UNRECOGNISED = "unrecognised"


def named(name: str) -> Format:
    """Raises: BadInputError if the table has no such format."""
    for known in FORMATS:
        if known.name == name:
            return known
    raise BadInputError(
        f"There is no checkpoint format {name!r}.", f"Known: {', '.join(known.name for known in FORMATS)}."
    )


def recognised(tree: Tree) -> Format | None:
    """The format that a tree is of, found by content."""
    return next((known for known in FORMATS if known.recognises(tree)), None)
