"""What a program beside the data says when it refuses: it crosses the process border as JSON."""


class PodError(Exception):
    """An expected failure with its remedy; the cluster raises it again as `ProgramError` with `kind`.

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


class BadInputError(PodError):
    """A value that can never work: a path that leads outside, an unknown key, a malformed config."""

    exit_code = 2


class NotThereError(PodError):
    """A run, step, dataset, repository or revision that does not exist."""


class NoSpaceError(PodError):
    """The volume or the disk under it is full, or would be."""


class StartedBeforeError(PodError):
    """A queue, or a node that went, took a job back after it had begun, and it was started again."""

    exit_code = 75


class CannotWriteError(PodError):
    """The volume does not belong to the user that everything beside the data runs as."""


class DeniedError(PodError):
    """A file or directory that the user who runs beside the data may not read or write."""


class ChangedError(PodError):
    """Bytes are not what the record says: a source that changed under a hold, a file with a wrong hash."""
