"""What keeps a fork's source alive and unchanged: its files as hard links (or a verified copy) outside what any trainer
can write. A re-save by the parent writes through a link: the fingerprint catches that."""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from pathlib import Path
from typing import Any

from tasks.pod import records
from tasks.pod.checkpoints import fingerprint
from tasks.pod.checkpoints.faults import UnclearError
from tasks.pod.checkpoints.tree import Tree, scan
from tasks.pod.errors import BadInputError, ChangedError, NotThereError
from tasks.pod.layout import Layout, real
from tasks.pod.reflink import clone

RECORD = "hold.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+,@-]{0,254}")  # NeMo and Lightning put "=" into names
_ABANDONED = 86400.0  # seconds after which what a killed `make` left is removed


def make(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Hold a fork's source. Asked again, it checks the hold that is there and returns it.

    Args:
        layout: the volume, writable.
        arguments: `{"fork": run id, "source": step directory relative to the volume, "fingerprint": the source's when
            it was chosen, "mode": "link" or "copy"}`. Where links are impossible, "link" copies too.

    Returns:
        `{"path", "fingerprint", "files", "bytes", "mode"}`: where it is, relative to the volume, and what it became:
        "link" or "copy"; "released", without anything there, once the fork has let go of it.

    Raises:
        BadInputError: the source leads out of the volume, or has links that lead out of it.
        NotThereError: the source is gone, and no hold of it is there.
        ChangedError: the source is not, or is no longer, what was chosen; or the fork holds something else.
    """
    fork, mode, chosen = str(arguments["fork"]), str(arguments.get("mode") or "link"), str(arguments["fingerprint"])
    if mode not in ("link", "copy"):
        raise BadInputError(f"There is no way to hold by {mode!r}.", 'Use "link" or "copy".')
    source = layout.resolve(str(arguments["source"]))
    home = layout.hold(fork)
    if not _NAME.fullmatch(source.name):
        raise BadInputError(f"{source.name!r} can not be held under its name.", "Rename the checkpoint.")
    final = home / source.name
    record = {"source": layout.relative(source), "fingerprint": chosen, "path": layout.relative(final)}
    if records.read_if_there(layout.records(fork) / "released.json"):
        return {"path": layout.relative(final), "fingerprint": chosen, "files": 0, "bytes": 0, "mode": "released"}
    written = layout.records(fork) / RECORD
    there = records.read_if_there(written)
    _check_same(fork, there, record)
    if final.exists():
        tree = _unchanged(final, chosen, layout.relative(final))
        return _described(layout, final, tree, chosen, (there or {}).get("mode", mode))
    if not source.exists():
        raise NotThereError(f"There is no checkpoint at {record['source']}.", "Choose another step of the run.")
    tree = _unchanged(source, chosen, record["source"])
    layout.holds.mkdir(parents=True, exist_ok=True)
    _sweep(layout)
    private = layout.holds / f".{fork}.{secrets.token_hex(8)}.tmp"
    try:
        place = private / final.name
        made = _build(tree, source, place, mode)
        _unchanged(source, chosen, record["source"])
        tree = _unchanged(place, chosen, record["source"])
        there, _ = records.write_once(written, {**record, "mode": made})
        _check_same(fork, there, record)  # two calls at once, with two sources
        _publish(place, final)
    finally:
        _remove(private)
    return _described(layout, final, tree, chosen, made)


def _check_same(fork: str, there: dict[str, Any] | None, record: dict[str, Any]) -> None:
    """Raises: ChangedError if the fork is on record with another source."""
    if there and {**there, **record} != there:
        raise ChangedError(
            f"{fork} holds {there.get('source')} ({there.get('fingerprint')}), "
            f"not {record['source']} ({record['fingerprint']}).",
            "Give the fork another name, or release its hold first.",
        )


def verify(layout: Layout, fork: str, fingerprint: str) -> None:
    """Check that what a fork holds is still what was chosen.

    Args:
        layout: the volume.
        fork: the run that holds.
        fingerprint: of the source when it was chosen.

    Raises:
        NotThereError: the fork holds nothing.
        ChangedError: bytes changed under the hold.
    """
    held = [path for path in _entries(layout.hold(fork)) if not path.name.startswith(".")]
    if not held:
        raise NotThereError(f"{fork} holds no checkpoint.", "Launch the fork again, so that its source is held.")
    for path in held:
        _unchanged(path, fingerprint, layout.relative(path))


def release(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Let go of what a fork holds; nothing happens if it holds nothing.

    Args:
        layout: the volume, writable.
        arguments: `{"fork": run id}`.

    Returns:
        `{"released": whether there was a hold}`.
    """
    fork = str(arguments["fork"])
    home = layout.hold(fork)
    there = home.exists()
    if there:
        layout.trash.mkdir(parents=True, exist_ok=True)
        home.chmod(0o755)
        away = layout.trash / f"hold.{fork}.{secrets.token_hex(8)}"
        with contextlib.suppress(FileNotFoundError):  # released by another at the same time
            home.rename(away)
            _remove(away)
    (layout.records(fork) / RECORD).unlink(missing_ok=True)
    return {"released": there}


def holders(layout: Layout) -> dict[str, list[str]]:
    """Who holds what: source step directory, relative to the volume, to the ids of the forks that hold it, sorted."""
    held: dict[str, list[str]] = {}
    for path in sorted(layout.holds.iterdir()) if layout.holds.is_dir() else ():
        if path.name.startswith("."):
            continue
        with contextlib.suppress(ChangedError, BadInputError):
            record = records.read_if_there(layout.records(path.name) / RECORD)
            if record:
                held.setdefault(str(record["source"]), []).append(path.name)
    return held


def _unchanged(path: Path, chosen: str, shown: str) -> Tree:
    try:
        tree = scan(path)
        now = fingerprint.of(tree)
    except (OSError, UnclearError) as error:
        raise ChangedError(f"{shown} can not be read whole: {error}.", "Choose another complete step.") from error
    if now != chosen:
        raise ChangedError(
            f"{shown} is no longer the checkpoint that was chosen: its files changed, as by a second save of the step.",
            'Choose the step again, or hold it with hold = "copy".',
        )
    return tree


def _build(tree: Tree, source: Path, place: Path, mode: str) -> str:
    """Make the tree again from links or copies; return which it became."""
    place.parent.mkdir(parents=True)
    if tree.single:
        return _take(source, place, mode)
    place.mkdir()
    for directory in sorted(tree.directories):
        (place / directory).mkdir()
    for name, target in tree.links.items():
        inside = target and not target.startswith("/") and real(source / name).is_relative_to(real(source))
        if not inside:
            raise BadInputError(
                f"{source.name}/{name} is a link that leads out of the checkpoint.", "Put the file itself there."
            )
        (place / name).symlink_to(target)
    for name in tree.files:
        mode = _take(source / name, place / name, mode)
    return mode


def _take(source: Path, target: Path, mode: str) -> str:
    """Link or copy one file; return which it became."""
    try:
        if mode == "link":
            os.link(source, target, follow_symlinks=False)
            return "link"
    except FileNotFoundError as error:
        raise ChangedError(f"{source.name} went away.", "Choose another complete step.") from error
    except OSError:  # EXDEV, EMLINK, EPERM: another file system, too many links, another owner
        pass
    _copy(source, target)
    return "copy"


def _copy(source: Path, target: Path) -> None:
    """Copy a file with its times, sharing blocks where the file system can, and compare what arrived."""
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as read, target.open("xb") as written:
        before = os.fstat(read.fileno())
        if not stat.S_ISREG(before.st_mode):
            raise ChangedError(f"{source} is no file any more.", "Choose another complete step.")
        if not clone(read.fileno(), written.fileno()):
            shutil.copyfileobj(read, written, 1 << 20)
            written.flush()
            os.fsync(written.fileno())
        read.seek(0)
        with target.open("rb") as arrived:
            if hashlib.file_digest(read, "sha256").digest() != hashlib.file_digest(arrived, "sha256").digest():
                raise ChangedError(f"{source} changed while it was copied.", "Choose another complete step.")
    target.chmod(0o444)
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))


def _publish(place: Path, final: Path) -> None:
    for directory, _, _ in os.walk(place):
        Path(directory).chmod(0o555)
    final.parent.mkdir(parents=True, exist_ok=True)
    final.parent.chmod(0o755)
    if place.is_dir():
        place.chmod(0o755)  # a directory that is moved must be writable: its ".." changes
    try:
        place.rename(final)
    except OSError:  # another call made it first
        if not final.exists():
            raise
    if final.is_dir():  # a file's mode is its source's
        final.chmod(0o555)
    final.parent.chmod(0o555)
    records.sync(final.parent)


def _described(layout: Layout, final: Path, tree: Tree, mark: str, mode: str) -> dict[str, Any]:
    return {
        "path": layout.relative(final),
        "fingerprint": mark,
        "files": len(tree.files),
        "bytes": tree.size,
        "mode": mode,
    }


def _sweep(layout: Layout) -> None:
    """Remove what killed calls left behind."""
    for path in _entries(layout.holds):
        with contextlib.suppress(OSError):
            if (
                path.name.endswith(".tmp")
                and path.name.startswith(".")
                and time.time() - path.stat().st_mtime > _ABANDONED
            ):
                _remove(path)


def _entries(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else []


def _remove(path: Path) -> None:
    """Remove a tree of ours whose directories are read-only; its files are links, and their modes are the source's."""
    for directory, _, _ in os.walk(path):
        Path(directory).chmod(0o755)
    shutil.rmtree(path, ignore_errors=True)
