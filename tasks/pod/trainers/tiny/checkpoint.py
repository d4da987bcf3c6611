"""Save, prove, load and thin out `checkpoints/step_<N>/`.

A step is complete once `complete.json` is there: it is written last, by rename, and names every other file
with its size and hash.
"""

import contextlib
import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.numpy import save

from tasks.pod.errors import ChangedError, NotThereError, PodError
from tasks.pod.records import sync
from tasks.pod.trainers.tiny.network import Parameters, Sizes
from tasks.pod.trainers.tiny.optimizer import AdamW
from tasks.pod.trainers.tiny.settings import step_of
from tasks.pod.trainers.tiny.weights import fill, read_json, read_tensors

MARKER = "complete.json"
_OTHER = "Continue from another step; `slipway checkpoints RUN` lists the complete ones."


@dataclass(frozen=True)
class Progress:
    """Where a training is.

    Args:
        step: steps done.
        tokens: bytes predicted so far.
        order: of the data, as `corpus.Order` writes it down.
        scheduler: as `schedule.Schedule` writes it down; None in checkpoints from before there were schedules.
    """

    step: int
    tokens: int
    order: dict[str, Any]
    scheduler: dict[str, Any] | None = None


def save_step(checkpoints: Path, parameters: Parameters, optimizer: AdamW, progress: Progress) -> Path:
    """Write one step's directory; over an earlier one of that step if there is one.

    Raises:
        OSError: the volume is full, among others; the directory has no marker then.
    """
    directory = checkpoints / f"step_{progress.step}"
    directory.mkdir(parents=True, exist_ok=True)
    _unmark(directory)
    moments = {f"first.{name}": values for name, values in optimizer.first.items()}
    moments |= {f"second.{name}": values for name, values in optimizer.second.items()}
    state = {
        "step": progress.step,
        "tokens": progress.tokens,
        "order": progress.order,
        "scheduler": progress.scheduler,
        "sizes": parameters.sizes.as_json(),
    }
    contents = {
        "model.safetensors": save(dict(parameters.items()), {"format": "np"}),
        "optimizer.safetensors": save(moments, {"format": "np"}),
        "state.json": json.dumps(state, indent=1).encode() + b"\n",
    }
    for name, content in contents.items():
        _write(directory / name, content)
    marker = {
        "step": progress.step,
        "format": "tiny",
        "files": {
            name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in contents.items()
        },
    }
    # not in the step's directory: what a killed save leaves there are files of known names, and nothing else
    temporary = checkpoints / f".{MARKER}.tmp"
    _write(temporary, json.dumps(marker, indent=1).encode() + b"\n")
    sync(directory)
    temporary.replace(directory / MARKER)
    sync(directory)
    sync(checkpoints)
    return directory


def load_step(directory: Path, parameters: Parameters, optimizer: AdamW) -> Progress:
    """Read a step into `parameters` and `optimizer`, after every byte has been checked against the marker.

    Raises:
        NotThereError: there is no such directory, or no marker in it.
        ChangedError: a file is not what the marker says.
        PodError: it is a checkpoint of a model of other sizes.
    """
    if not directory.is_dir():
        raise NotThereError(f"There is no checkpoint at {directory}.", _OTHER)
    if not (directory / MARKER).is_file():
        raise NotThereError(f"The checkpoint {directory} is incomplete: it has no {MARKER}.", _OTHER)
    marker = read_json(directory / MARKER)
    if marker.get("format") != "tiny":
        raise PodError(f"The checkpoint {directory} is another trainer's.", "Continue it with that one.")
    for name, told in marker["files"].items():
        content = (directory / name).read_bytes() if (directory / name).is_file() else b""
        if len(content) != told["size"] or hashlib.sha256(content).hexdigest() != told["sha256"]:
            raise ChangedError(f"{directory / name} is not what {MARKER} says.", _OTHER)
    state = read_json(directory / "state.json")
    if state["sizes"] != parameters.sizes.as_json():
        theirs, ours = Sizes(**state["sizes"]), parameters.sizes
        raise PodError(
            f"The checkpoint {directory} is of another architecture: it has {theirs}, [model].name has {ours}.",
            "Name the model that it was trained from under [model].name.",
        )
    what = f"The checkpoint {directory}'s"
    fill(parameters, read_tensors(directory / "model.safetensors"), f"{what} weights", _OTHER)
    moments = read_tensors(directory / "optimizer.safetensors")
    for prefix, moment in (("first.", optimizer.first), ("second.", optimizer.second)):
        named = {name.removeprefix(prefix): values for name, values in moments.items() if name.startswith(prefix)}
        fill(moment, named, f"{what} moments", _OTHER)
    return Progress(state["step"], state["tokens"], state["order"], state.get("scheduler"))


def steps_in(checkpoints: Path) -> list[int]:
    """Steps that have a directory, complete or not, in order."""
    if not checkpoints.is_dir():
        return []
    found = (step_of(entry.name) for entry in checkpoints.iterdir() if entry.is_dir())
    return sorted(step for step in found if step is not None)


def thin_out(checkpoints: Path, newest: int, keep_last: int | None, keep_interval: int | None) -> list[int]:
    """Remove what retention does not keep, and return those steps.

    As prime-rl's: the last `keep_last` and the multiples of `keep_interval` stay, everything does if neither
    is set, and steps above `newest`, which another attempt left, are not looked at. Unlike prime-rl's, the
    newest always stays.
    The marker goes first: what a killed removal leaves is never taken for complete.
    """
    if keep_last is None and keep_interval is None:
        return []
    known = [step for step in steps_in(checkpoints) if step <= newest]
    kept = {newest, *known[-(keep_last or 1) :]}
    gone = [step for step in known if step not in kept and not (keep_interval and step % keep_interval == 0)]
    for step in gone:
        with contextlib.suppress(FileNotFoundError):  # others thin out, too
            _unmark(checkpoints / f"step_{step}")
            shutil.rmtree(checkpoints / f"step_{step}")
    return gone


def _unmark(directory: Path) -> None:
    (directory / MARKER).unlink(missing_ok=True)
    sync(directory)


def _write(file: Path, content: bytes) -> None:
    """In place, as most trainers write: a killed save leaves a torn file to be found out."""
    with file.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
