"""`slipway volumes ssh` and `slipway volumes sessions`: shells beside the data, and what keeps volumes open."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.command import NamedCommand
from flows.cli.options import ClusterName, Output, OutputFormat, Owner, VolumeName
from flows.cli.place import connect
from flows.cli.show import ago, say, show_json, show_table

if TYPE_CHECKING:
    from blocks.clusters.port import Cluster, Session

sessions = typer.Typer(help="Sessions on volumes: list them, or stop one.")


def add_to(app: typer.Typer) -> None:
    app.command(cls=NamedCommand)(ssh)
    app.add_typer(sessions, name="sessions")


def ssh(
    name: VolumeName,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="Instead of a shell.", show_default=False)
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", "--read", help="Mount the volume read-only.")] = False,
    read_write: Annotated[bool, typer.Option("--read-write", help="Mount it writable: the default.")] = False,
    cluster: ClusterName = None,
    owner: Owner = None,
) -> None:
    """Open a shell with the volume at /volume. There are no keys to manage: it goes through the cluster's own API."""
    from blocks.clusters.errors import UsageError
    from blocks.clusters.names import check_name

    if read_only and read_write:
        raise UsageError("--read-only and --read-write can not both be meant.", "Give one of them.")
    check_name("volume", name)
    place = connect(cluster, owner)
    session = place.sessions.open(name, not read_only, reuse=True)
    how = "read-write" if session.writable else "read-only"
    say(f"{session.id}: {name}, {how}{', was open already' if session.reused else ''}")
    try:
        code = _attached(place, session, command or [])
    finally:
        _leave(place, session)
    sys.exit(code)


@sessions.callback(invoke_without_command=True)
def list_sessions(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Also those that Slipway opened for look-ups.")] = False,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Show the sessions that are open."""
    if context.invoked_subcommand:
        return
    found = [session for session in connect(cluster, owner).sessions.list() if every or not session.internal]
    if output is Output.JSON:
        show_json([session.model_dump(mode="json", exclude={"reused"}) for session in found])
        return
    rows = [
        (
            s.id,
            s.volume,
            "read-write" if s.writable else "read-only",
            "look-ups" if s.internal else "",
            ago(s.started_at),
        )
        for s in found
    ]
    show_table(("session", "volume", "mode", "for", "opened"), rows, empty="No session is open.")


@sessions.command(cls=NamedCommand)
def stop(
    session: Annotated[str, typer.Argument(metavar="ID", help="As `slipway volumes ssh` printed it.")],
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """End a session, and what runs in it."""
    connect(cluster, owner).sessions.stop(session)
    if output is Output.JSON:
        show_json({"session": session, "stopped": True})
        return
    say(f"Session {session} is ended.")


def _leave(cluster: "Cluster", session: "Session") -> None:
    """What became of the program is what the person asked for, whatever becomes of the session."""
    from blocks.clusters.errors import SlipwayError

    try:
        cluster.sessions.leave(session)
    except SlipwayError as error:
        say(f"Session {session.id} is left to end by itself: {error}")


def _attached(cluster: "Cluster", session: "Session", command: list[str]) -> int:
    from flows.cli.terminal import relay

    size = None
    if sys.stdin.isatty() and sys.stdout.isatty():
        columns, rows = os.get_terminal_size()
        size = (rows, columns)
    terminal = cluster.sessions.attach(session.id, command, size)
    try:
        return relay(terminal, raw=size is not None)
    finally:
        terminal.close()
