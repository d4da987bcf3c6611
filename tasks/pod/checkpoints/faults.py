"""What a format raises against a checkpoint: its message is the evidence, its kind the verdict."""


class TornError(Exception):
    """A part is missing, torn, or of another save: the checkpoint is incomplete. The message is the evidence."""


class UnclearError(Exception):
    """The directory does not settle it: the verdict is unknown. The message is the evidence."""
