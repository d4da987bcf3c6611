"""What `slipway volumes ls|du|cat|get|put` do beside the data."""

import os
import secrets
import shutil
import stat
import sys
import time
from pathlib import Path
from typing import Any

from tasks.pod import archive, arriving
from tasks.pod.area import is_owned, require_space, staging_area
from tasks.pod.errors import BadInputError, ChangedError, NotThereError
from tasks.pod.layout import OURS, Layout, real, volume_relative
from tasks.pod.publish import set_aside
from tasks.pod.usage import allocated
from tasks.pod.walk import check_name

_MOST_ENTRIES = 50_000
_KEPT_SECONDS = 24 * 3600
"""For how long a transfer that was cut can be gone on with."""
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


def ls(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """List a directory, or one file.

    Args:
        layout: the volume.
        arguments: "path" (default: the root), "recursive" (default false).

    Returns:
        "path", "entries" sorted by path: {"path" relative to the volume, "type" ("file", "directory", "link",
        "other"), "size" in bytes, "mtime" in seconds since 1970, "link" where a link leads}, "truncated".

    Raises:
        NotThereError, BadInputError.
    """
    start = _existing(layout, arguments.get("path", "."))
    entries: list[dict[str, Any]] = []
    if not start.is_dir():
        entries.append(_entry(layout, start, start.lstat()))
    folders = [start] if start.is_dir() else []
    while folders and len(entries) <= _MOST_ENTRIES:
        folder = folders.pop()
        try:
            scan = os.scandir(folder)
        except FileNotFoundError:
            continue
        except PermissionError:  # lost+found, for one: it is listed, what is in it is not
            if folder == start:
                raise
            continue
        with scan:
            for item in scan:
                try:
                    entries.append(_entry(layout, Path(item.path), item.stat(follow_symlinks=False)))
                except FileNotFoundError:  # a run may remove files while we look
                    continue
                if arguments.get("recursive") and item.is_dir(follow_symlinks=False):
                    folders.append(Path(item.path))
    entries.sort(key=lambda entry: entry["path"])
    return {
        "path": layout.relative(start),
        "entries": entries[:_MOST_ENTRIES],
        "truncated": len(entries) > _MOST_ENTRIES,
    }


def missing(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """{"missing": those of "paths" that are not there}.

    Raises:
        BadInputError: a path leads out of the volume.
    """
    return {"missing": [path for path in arguments["paths"] if not layout.resolve(path).exists()]}


def du(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """How much a directory holds.

    Args:
        layout: the volume.
        arguments: "path" (default: the root).

    Returns:
        "path", "bytes" (allocated, hard-linked files once), "entries": {"path", "bytes"} of what is directly in it,
        the largest first; a file that two of them share counts for the first.

    Raises:
        NotThereError, BadInputError.
    """
    start = _existing(layout, arguments.get("path", "."))
    seen: set[tuple[int, int]] = set()
    children = sorted(start.iterdir()) if start.is_dir() else []
    sizes = {child: sum(allocated(child, seen)) for child in children}
    entries = [{"path": layout.relative(child), "bytes": sizes[child]} for child in sizes]
    entries.sort(key=lambda entry: (-sizes[layout.root / str(entry["path"])], entry["path"]))
    own = start.lstat().st_blocks * 512
    return {"path": layout.relative(start), "bytes": own + sum(sizes.values()), "entries": entries}


def send(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Write a file or directory to standard output, as `archive.pack` does. A stream program.

    Args:
        layout: the volume.
        arguments: "path"; "have": what the other end has of it from a transfer that was cut (`arriving.to_json`).

    Returns:
        "path", "name" (its last part), "is_file", "files", "bytes".

    Raises:
        NotThereError, BadInputError, ChangedError.
    """
    start = _existing(layout, arguments["path"])
    totals = archive.pack(start, sys.stdout.buffer, arriving.from_json(arguments.get("have") or {}))
    return {
        "path": layout.relative(start),
        "name": start.name if start != layout.root else "volume",
        "is_file": not start.is_dir(),
        "files": totals.files,
        "bytes": totals.bytes,
    }


def cat(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Write one file to standard output as it is. A stream program.

    Args:
        layout: the volume.
        arguments: "path".

    Returns:
        "path", "bytes".

    Raises:
        NotThereError, BadInputError: it is no file.
    """
    start = _existing(layout, arguments["path"])
    if not stat.S_ISREG(start.lstat().st_mode):
        raise BadInputError(f"{layout.relative(start)} is not a file.", "List it with ls, or name a file in it.")
    with start.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)
        return {"path": layout.relative(start), "bytes": file.tell()}


def arrived(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """What is there of a put that was cut.

    Args:
        layout: the volume.
        arguments: "key", as `receive` was given it.

    Returns:
        "have", for `archive.pack`.
    """
    return {"have": arriving.to_json(arriving.arrived(layout.staging(_area_name(arguments["key"]))))}


def receive(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Unpack standard input (what `archive.pack` wrote) and move it into place in one step. A stream program.

    Args:
        layout: the volume.
        arguments: "path": where to, as `cp` means it: in an existing directory it keeps its "name", else it gets that
            path; "name": the last part of its path at the other end; "bytes": how many come (default unknown);
            "replace": whether what is there may be replaced (default false); "key": says which transfer this is: one
            that is cut keeps what has arrived for the next of that key.

    Returns:
        "path", "files", "bytes".

    Raises:
        BadInputError: the place is not for `put`, or taken; the stream leads outside.
        NoSpaceError, ChangedError.
    """
    final = _destination(layout, arguments["path"], arguments["name"])
    replace = bool(arguments.get("replace"))
    _refuse_taken(layout, final, replace)
    require_space(layout.root, int(arguments.get("bytes") or 0), what="This put")
    name = _area_name(arguments.get("key") or secrets.token_hex(8))
    _sweep(layout, name)
    with staging_area(layout, name) as area:
        keep = False
        try:
            _refuse_taken(layout, final, replace)  # by whom we waited for
            unpacked = arriving.unpack(sys.stdin.buffer, area)
            _refuse_taken(layout, final, replace)
            if os.path.lexists(final):
                set_aside(layout, final)
            arriving.place(unpacked, final)
        except ChangedError:
            keep = "key" in arguments
            raise
        finally:
            if not keep:
                arriving.discard(area)
    return {"path": layout.relative(final), "files": unpacked.totals.files, "bytes": unpacked.totals.bytes}


def check_destination(path: str) -> None:
    """Whether `put` may write to a path at all, before anything is sent.

    Raises:
        BadInputError: with the reason.
    """
    first = volume_relative(path).split("/")[0]
    if first in OURS:
        raise BadInputError(
            f"put can not write to {first}/: {_REASONS[first]}.", "Put weights into models/<name>, files anywhere else."
        )


_REASONS = {
    "hub": "snapshots are staged, so that every byte is proven",
    "runs": "each run's directory is written by its trainer alone",
    "holds": "it keeps the checkpoints that forks continue from",
    ".slipway": "it holds Slipway's own records",
}


def _existing(layout: Layout, path: str) -> Path:
    found = layout.resolve(path)
    try:
        found.lstat()
    except (FileNotFoundError, NotADirectoryError):
        what = f"There is no {volume_relative(path)!r} on the volume."
        raise NotThereError(what, "List the directory above it.") from None
    return found


def _entry(layout: Layout, path: Path, status: os.stat_result) -> dict[str, Any]:
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "other")
    # names that are no text, and control characters, must not reach a terminal
    shown = layout.relative(path).encode("utf-8", "backslashreplace").decode()
    entry = {"path": shown, "type": kind, "size": status.st_size, "mtime": status.st_mtime}
    return entry | ({"link": os.fspath(path.readlink())} if kind == "link" else {})


def _destination(layout: Layout, path: str, name: str) -> Path:
    check_destination(path)
    final = layout.resolve(path)
    if final.is_dir():
        check_name(name)
        if not name or "/" in name or name in (".", ".."):
            raise BadInputError(f"{name!r} can not be the name of a file.", "Name the whole path on the volume.")
        final = final / name
    check_destination(layout.relative(final))
    check_destination(layout.relative(real(layout.root) / real(final).relative_to(real(layout.root))))
    return final


def _refuse_taken(layout: Layout, final: Path, replace: bool) -> None:
    pieces = final.relative_to(layout.root).parts
    if pieces[0] == "datasets":
        version = layout.root.joinpath(*pieces[:3])
        published = version if (version / "manifest.json").exists() else next(final.glob("**/manifest.json"), None)
        if published:
            where = published if published.is_dir() else published.parent
            raise BadInputError(
                f"{layout.relative(where)} is a published version of a dataset, which never changes.",
                "Stage another version.",
            )
    for parent in final.parents:
        if parent.exists() and not parent.is_dir():
            raise BadInputError(f"{layout.relative(parent)} is a file.", "Name another path.")
    if os.path.lexists(final) and not replace:
        raise BadInputError(f"{layout.relative(final)} is there already.", "Name another path, or ask to replace it.")


def _area_name(key: str) -> str:
    """Raises: BadInputError: it is no key."""
    if not key.isalnum() or len(key) > 64:
        raise BadInputError(f"{key!r} is no key of a transfer.", "Give letters and digits.")
    return f"put-{key}"


def _sweep(layout: Layout, ours: str) -> None:
    """Remove what killed transfers left and nobody has gone on with."""
    for area in (layout.ours / "staging").glob("put-*"):
        old = time.time() - area.stat().st_mtime > _KEPT_SECONDS
        if area.name != ours and old and not is_owned(area):
            arriving.discard(area)
