"""`slipway volumes ls|du|cat|get|put`: the files on a volume, as a person sees them."""

import codecs
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.command import NamedCommand
from flows.cli.options import ClusterName, Output, OutputFormat, Owner, VolumeName
from flows.cli.place import connect
from flows.cli.show import printable, say, show_json, show_table

Remote = Annotated[str, typer.Argument(metavar="PATH", help="Relative to the root of the volume.")]
Replace = Annotated[bool, typer.Option("--replace", help="Replace what is there by that name.")]


def add_to(app: typer.Typer) -> None:
    for command in (ls, du, cat, get, put):
        app.command(cls=NamedCommand)(command)


def ls(
    name: VolumeName,
    path: Remote = "/",
    long: Annotated[bool, typer.Option("--long", "-l", help="With type, size and time.")] = False,
    recursive: Annotated[bool, typer.Option("--recursive", "-R", help="With all that is below.")] = False,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """List what is on a volume."""
    from blocks.clusters.size import format_size

    place = connect(cluster, owner)
    listed = place.call(_checked(name), "transfer.ls", {"path": path, "recursive": recursive})
    entries: list[dict[str, Any]] = listed["entries"]
    if listed["truncated"]:
        say(f"Only the first {len(entries)} entries are shown.")
    if output is Output.JSON:
        show_json(entries)
        return
    if not entries:
        say("There is nothing in it.")
    base = "" if listed["path"] == "." else f"{listed['path']}/"
    names = [_one_line(_name(entry, base)) for entry in entries]
    if not long:
        for shown in names:
            print(printable(shown))
        return
    rows = [
        (
            entry["type"],
            format_size(entry["size"]) if entry["type"] == "file" else "",
            f"{datetime.fromtimestamp(entry['mtime'], UTC).astimezone():%Y-%m-%d %H:%M:%S}",
            shown,
        )
        for entry, shown in zip(entries, names, strict=True)
    ]
    show_table(("type", "size", "modified", "path"), rows, empty="", right=("size",), wraps="path")


def du(
    name: VolumeName,
    path: Remote = "/",
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Show how much a directory holds, the largest first; hard-linked files count once."""
    from blocks.clusters.size import format_size

    held = connect(cluster, owner).call(_checked(name), "transfer.du", {"path": path})
    if output is Output.JSON:
        show_json(held)
        return
    whole = max(1, held["bytes"])
    rows = [
        (format_size(e["bytes"]), f"{100 * e['bytes'] / whole:.0f} %", _one_line(e["path"])) for e in held["entries"]
    ]
    where = "all of the volume" if held["path"] == "." else held["path"]
    rows.append((format_size(held["bytes"]), "", where))
    show_table(("size", "share", "path"), rows, empty="", right=("size", "share"), wraps="path")


def cat(
    name: VolumeName,
    remote: Annotated[str, typer.Argument(metavar="REMOTE", help="A file, relative to the root of the volume.")],
    cluster: ClusterName = None,
    owner: Owner = None,
) -> None:
    """Print a file; a terminal is spared its control characters."""
    on_terminal = sys.stdout.isatty()
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    with connect(cluster, owner).stream(_checked(name), "transfer.cat", {"path": remote}) as stream:
        while piece := stream.stdout.read(1 << 16):
            if on_terminal:
                piece = printable(decoder.decode(piece), also="\t").encode()
            sys.stdout.buffer.write(piece)
        stream.result()
    sys.stdout.flush()


def get(
    name: VolumeName,
    remote: Annotated[str, typer.Argument(metavar="REMOTE", help="Relative to the root of the volume.")],
    local: Annotated[Path, typer.Argument(metavar="LOCAL", help="A directory to put it in, or its new path.")] = Path(),
    replace: Replace = False,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Copy a file or directory from a volume."""
    from flows.cli.transfer import download

    target, totals = download(connect(cluster, owner), _checked(name), remote, local, replace=replace)
    here = Path.cwd()
    shown = target.relative_to(here) if target.is_relative_to(here) and output is Output.TABLE else target
    _done(output, str(shown), totals.files, totals.bytes)


def put(
    name: VolumeName,
    local: Annotated[Path, typer.Argument(metavar="LOCAL", help="A file or directory.")],
    remote: Annotated[str, typer.Argument(metavar="REMOTE", help="A directory to put it in, or its new path.")] = "/",
    replace: Replace = False,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Copy a file or directory onto a volume; it appears there whole or not at all."""
    from flows.cli.transfer import upload

    stored = upload(connect(cluster, owner), _checked(name), local, remote, replace=replace)
    _done(output, f"/volume/{stored['path']}", stored["files"], stored["bytes"])


def _done(output: Output, path: str, files: int, count: int) -> None:
    from blocks.clusters.size import format_size

    if output is Output.JSON:
        show_json({"path": path, "files": files, "bytes": count})
    else:
        say(f"{path}: {files} {'file' if files == 1 else 'files'}, {format_size(count)}")


def _checked(name: str) -> str:
    from blocks.clusters.names import check_name

    return check_name("volume", name)


def _one_line(name: str) -> str:
    """A file's name with a line end in it must not look like two names."""
    return name.replace("\n", "\\n")


def _name(entry: dict[str, Any], base: str) -> str:
    path = str(entry["path"]).removeprefix(base)
    if entry["type"] == "directory":
        return f"{path}/"
    return f"{path} -> {entry['link']}" if entry["type"] == "link" else path
