"""Long-running processes of ours (server, worker, Hub), each with a note that tells later commands which one it is."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

LOG_SUFFIX = ".log"
_GRACE_SECONDS = 10.0
_LOOK_SECONDS = 0.05


def start_noted(folder: Path, name: str, argv: Sequence[str], env: Mapping[str, str], **facts: Any) -> psutil.Process:
    """Start a process in a group of its own, its output in `<folder>/<name>.log`, its note in `<folder>/<name>.json`.

    Args:
        env: added to this process's environment.
        facts: JSON that later commands want to know of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with log_of(folder, name).open("ab") as out:
        process = psutil.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **env},
        )
    try:
        note = {"pid": process.pid, "started": process.create_time(), **facts}
        draft = folder / f".{name}.{process.pid}"
        draft.write_text(json.dumps(note))
        draft.replace(_note(folder, name))  # whoever reads it reads all of it
    except BaseException:  # told to end, too: nobody would know of it
        _end_group(process, _GRACE_SECONDS)
        raise
    return process


def noted(folder: Path, name: str) -> dict[str, Any] | None:
    """The note of a process that lives; None if it does not, or is another one with its number."""
    note = remembered(folder, name)
    return note if note and _process(note) else None


def remembered(folder: Path, name: str) -> dict[str, Any] | None:
    """The note of a process that was not stopped by us, whether it lives or was killed."""
    try:
        note: dict[str, Any] = json.loads(_note(folder, name).read_text())
        return note if note.keys() >= {"pid", "started"} else None
    except (OSError, ValueError, AttributeError):
        return None


def stop_noted(folder: Path, name: str, grace_seconds: float = _GRACE_SECONDS) -> bool:
    """End a process and its group, all of which is gone then; say whether there was one."""
    note = noted(folder, name)
    process = _process(note) if note else None
    if process is not None:
        _end_group(process, grace_seconds)
    _note(folder, name).unlink(missing_ok=True)
    return process is not None


def log_of(folder: Path, name: str) -> Path:
    return folder / f"{name}{LOG_SUFFIX}"


def _note(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _process(note: Mapping[str, Any]) -> psutil.Process | None:
    try:
        process = psutil.Process(note["pid"])
        alive = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        return process if alive and abs(process.create_time() - note["started"]) < 1 else None
    except psutil.NoSuchProcess:
        return None


def _end_group(process: psutil.Process, grace_seconds: float) -> None:
    """What it started has its ports and files, and may need longer than itself to give them back."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        until = time.monotonic() + grace_seconds
        while time.monotonic() < until:
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(0)  # a child of ours would stay a zombie
            if not _lives(process.pid):
                return
            time.sleep(_LOOK_SECONDS)


def _lives(group: int) -> bool:
    """Whether any process of a group does."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False
