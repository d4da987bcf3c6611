"""The expected failures of clusters: what happened, to what, what to do. Not for bugs, which stay tracebacks."""


class SlipwayError(Exception):
    """An expected failure with its remedy.

    Args:
        what: what happened, and to what, in one sentence.
        remedy: what the reader can do about it, in one sentence.
    """

    exit_code = 1

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what} {self.remedy}".strip()


class UsageError(SlipwayError):
    """A value that can never work: a bad name, a bad size, an unknown key."""

    exit_code = 2


class NotFoundError(SlipwayError):
    """A volume, job or session that does not exist."""


class ConflictError(SlipwayError):
    """Something of that name exists and is not what was asked for."""


class InUseError(SlipwayError):
    """Refused because something else still uses it; the message names what."""


CUT_OFF = "CutOff"
"""The kind of a `ProgramError` that says nothing of the program: the way to it broke."""


class ProgramError(SlipwayError):
    """A program beside the data refused (`kind` names its own error class) or failed (`kind` names this one)."""

    def __init__(self, what: str, remedy: str, kind: str = "ProgramError") -> None:
        super().__init__(what, remedy)
        self.kind = kind
