"""The command `slipway`: its groups, and the one place where expected failures become a line and an exit code."""

import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.cli import (
    automations,
    checkpoints,
    compare,
    export,
    export_weights,
    files,
    fork,
    letting_go,
    lineage,
    prune,
    register,
    runs,
    shell,
    stage,
    staged,
    sweep,
    sweeps,
    train,
    volumes,
)

app = typer.Typer(
    name="slipway",
    help="Stage data once, launch fine-tunes, and keep training from any completed step.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help made with Rich takes three times as long
)
files.add_to(volumes.app)
shell.add_to(volumes.app)
app.add_typer(volumes.app, name="volumes")
app.add_typer(stage.app, name="stage")
app.add_typer(staged.models, name="models")
app.add_typer(staged.datasets, name="datasets")
train.add_to(app)
fork.add_to(app)
sweep.add_to(app)
app.add_typer(sweeps.app, name="sweeps")
letting_go.add_to(runs.app)
compare.add_to(runs.app)
app.add_typer(runs.app, name="runs")
lineage.add_to(app)
checkpoints.add_to(app)
export.add_to(app)
export_weights.add_to(app)
prune.add_to(app)
register.add_to(app)
app.add_typer(automations.app, name="automations")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"slipway {version('slipway')}")
        except PackageNotFoundError:
            typer.echo("slipway, not installed")
        raise typer.Exit


@app.callback()
def slipway(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Stage data once, launch fine-tunes, and keep training from any completed step."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. An expected failure is one line on standard error and its exit code.

    Args:
        arguments: those of the process by default.
    """
    from tasks.errors import EXPECTED

    _mend_streams()
    command = typer.main.get_command(app)
    try:
        command(arguments, prog_name="slipway")
    except EXPECTED as error:
        from flows.cli.prefect_server import ServerGoneError

        between = "\n" if "\n" in error.what else " "  # a remedy behind the last lines of a log would be overlooked
        print(f"error: {error.what}{between}{error.remedy}".rstrip(), file=sys.stderr, flush=True)
        if isinstance(error, ServerGoneError):  # Prefect would try for minutes more to send it what is left
            sys.stdout.flush()
            os._exit(exit_code(error))
        sys.exit(exit_code(error))
    except OSError as error:  # a name that is too long, a directory that may not be read
        if not error.filename and not _here():
            print("error: The directory that you are in was removed. Go to another one.", file=sys.stderr, flush=True)
            sys.exit(1)
        where = f": {error.filename}" if error.filename else ""
        print(f"error: {error.strerror or error}{where}.", file=sys.stderr, flush=True)
        sys.exit(1)


def _here() -> bool:
    try:
        return bool(os.getcwd())  # noqa: PTH109 - Path.cwd is no other
    except FileNotFoundError:
        return False


def _mend_streams() -> None:
    """What is closed leads nowhere; what can not say a character says a question mark, and goes on."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - as long as we live
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def exit_code(error: Exception) -> int:
    """2 for what can never work, also where a program beside the data said so; 1 for the rest."""
    from blocks.clusters.errors import ProgramError
    from tasks.pod.errors import BadInputError

    if isinstance(error, ProgramError):
        return BadInputError.exit_code if error.kind == BadInputError.__name__ else error.exit_code
    return int(getattr(error, "exit_code", 1))


if __name__ == "__main__":
    main()
