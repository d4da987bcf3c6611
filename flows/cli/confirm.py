"""Asking before something goes for good."""

import typer


def confirmed(question: str, *, yes: bool) -> bool:
    """Whether a person wants it: asked on standard error, unless `yes` says so already.

    Raises:
        UsageError: nobody is there to answer.
    """
    from blocks.clusters.errors import UsageError

    if yes:
        return True
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        typer.echo(err=True)  # the question's line is still open
        raise UsageError("Nobody confirmed: standard input has ended.", "Say --yes to do it without asking.") from None
