"""The door to everything beside the data: `python -m tasks.pod.program [--stream|--quiet] NAME [JSON]`.

Arguments come as one line of JSON on standard input or as the second argument (a job's). The answer is one line of
JSON, `{"ok": …}` or `{"error": {"kind", "what", "remedy"}}`: the last line of standard output, or with `--stream`,
where standard input and output carry bytes, the last line of standard error; `--quiet` keeps an init command's out of
the log. Log lines go to standard error.
Nothing secret is ever an argument: secrets are environment variables.
"""

import errno
import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasks.pod.errors import BadInputError, PodError, StartedBeforeError
from tasks.pod.layout import Layout
from tasks.pod.reserve import is_full, until_it_fits

Program = Callable[[Layout, dict[str, Any]], dict[str, Any]]

PROGRAMS: dict[str, str] = {
    "buckets.look": "tasks.pod.buckets:look",
    "checkpoints.look": "tasks.pod.checkpoints.look:look",
    "datasets.list": "tasks.pod.catalogue:list_datasets",
    "datasets.look": "tasks.pod.contents:look",
    "datasets.remove": "tasks.pod.catalogue:remove_dataset",
    "datasets.stage": "tasks.pod.datasets:stage",
    "datasets.state": "tasks.pod.datasets:state",
    "folders.look": "tasks.pod.origins:look",
    "holds.make": "tasks.pod.holds:make",
    "holds.release": "tasks.pod.holds:release",
    "retention.plan": "tasks.pod.retention:plan",
    "retention.prune": "tasks.pod.retention:prune",
    "runs.claim": "tasks.pod.runs:claim",
    "runs.delete": "tasks.pod.letting_go:delete",
    "runs.end": "tasks.pod.runs:end",
    "runs.export": "tasks.pod.export:export",
    "runs.lineage": "tasks.pod.lineage:lineage",
    "runs.followed": "tasks.pod.runs:followed",
    "runs.list": "tasks.pod.runs:list_runs",
    "runs.observe": "tasks.pod.observe:observe",
    "runs.prepare": "tasks.pod.prepare:prepare",
    "runs.release": "tasks.pod.letting_go:release",
    "runs.render": "tasks.pod.render:render",
    "runs.rendered": "tasks.pod.runs:rendered",
    "runs.show": "tasks.pod.runs:show",
    "snapshots.find": "tasks.pod.catalogue:find_snapshot",
    "snapshots.list": "tasks.pod.catalogue:list_snapshots",
    "snapshots.remove": "tasks.pod.catalogue:remove_model",
    "snapshots.resolve": "tasks.pod.resolve:resolve",
    "snapshots.stage": "tasks.pod.snapshots:stage",
    "snapshots.state": "tasks.pod.snapshots:state",
    "snapshots.verify": "tasks.pod.verify:verify",
    "staging.progress": "tasks.pod.staging:progress",
    "sweeps.advance": "tasks.pod.sweeps:advance",
    "sweeps.claim": "tasks.pod.sweeps:claim",
    "sweeps.list": "tasks.pod.sweeps:list_sweeps",
    "sweeps.show": "tasks.pod.sweeps:show",
    "transfer.arrived": "tasks.pod.transfer:arrived",
    "transfer.cat": "tasks.pod.transfer:cat",
    "transfer.du": "tasks.pod.transfer:du",
    "transfer.ls": "tasks.pod.transfer:ls",
    "transfer.receive": "tasks.pod.transfer:receive",
    "transfer.send": "tasks.pod.transfer:send",
    "volume.missing": "tasks.pod.transfer:missing",
    "volume.probe": "tasks.pod.usage:probe",
    "volume.room": "tasks.pod.usage:room",
    "volume.usage": "tasks.pod.usage:usage",
    "weights.export": "tasks.pod.export_weights:export_weights",
    "weights.inspect": "tasks.pod.weights:inspect",
    "weights.list": "tasks.pod.own_weights:list_weights",
    "weights.remove": "tasks.pod.own_weights:remove",
    "weights.stage": "tasks.pod.own_weights:stage",
    "weights.state": "tasks.pod.own_weights:state",
}
"""Name → `module:function`. A function takes the volume's layout and its arguments, and returns JSON."""

MAKE_ROOM = frozenset(
    {
        *("datasets.remove", "holds.release", "retention.prune", "runs.delete", "runs.end", "runs.release"),
        *("snapshots.remove", "sweeps.advance", "weights.remove"),
    }
)
"""Programs that have to work on a full volume: they may use up what is reserved there. Each can be run again."""


def load(name: str) -> Program:
    """Raises: BadInputError if the table has no such program."""
    if name not in PROGRAMS:
        raise BadInputError(f"There is no program {name!r} beside the data.", f"Known: {', '.join(sorted(PROGRAMS))}.")
    module, function = PROGRAMS[name].split(":")
    program: Program = getattr(importlib.import_module(module), function)
    return program


def main(argv: list[str]) -> int:
    options = [word for word in argv[1:2] if word in ("--stream", "--quiet")]
    stream, quiet = "--stream" in options, "--quiet" in options
    argv = argv[1 + len(options) :]
    as_job, name, code = len(argv) > 1, argv[0], 1
    try:
        arguments = json.loads(argv[1] if as_job else sys.stdin.buffer.readline() or "{}")
        program, layout = load(name), Layout.here()
        if name in MAKE_ROOM:
            answer = {"ok": until_it_fits(layout, lambda: program(layout, arguments))}
        else:
            answer = {"ok": program(layout, arguments)}
    except PodError as error:
        answer = _error(type(error).__name__, error.what, error.remedy)
        code = error.exit_code if isinstance(error, StartedBeforeError) else 1
    except Exception as error:
        answer = _failure(name, error)
    failed = "error" in answer
    if failed and as_job:  # people read its log
        print(f"error: {answer['error']['what']} {answer['error']['remedy']}", file=sys.stderr, flush=True)
    out = sys.stderr.buffer if stream else sys.stdout.buffer
    sys.stdout.buffer.flush()
    if not quiet:
        out.write(json.dumps(answer).encode() + b"\n")
        out.flush()
    return code if failed else 0


def _error(kind: str, what: str, remedy: str) -> dict[str, Any]:
    return {"error": {"kind": kind, "what": what, "remedy": remedy}}


def _failure(name: str, error: Exception) -> dict[str, Any]:
    """What to say of an error that nobody foresaw. `ProgramError` may pass by itself, and is tried again."""
    if isinstance(error, OSError) and is_full(error):
        remedy = "Grow it, prune checkpoints, or remove what is not needed."
        return _error("NoSpaceError", f"The volume is full: {error}.", remedy)
    if isinstance(error, OSError) and error.errno == errno.EROFS:
        remedy = "File systems with faults become so by themselves (the kernel's log says why). Make it writable again."
        return _error("ProgramError", f"The volume is read-only: {error}.", remedy)
    if isinstance(error, PermissionError) and error.filename:
        path, root = Path(os.fsdecode(error.filename2 or error.filename)), Layout.here().root
        where = f"{str(path.relative_to(root))!r} on the volume" if path.is_relative_to(root) else repr(str(path))
        what = f"User {os.getuid()} may not read or write {where}: {error.strerror}."
        return _error("DeniedError", what, "Give that user the right to (chown, chmod), or name another place.")
    traceback.print_exception(error)
    at = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{name} failed: {type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})."
    if isinstance(error, OSError):
        return _error("ProgramError", what, "Look at the volume's file system, and try again.")
    remedy = (
        "Unless somebody changed a file of ours on the volume, this is a fault of Slipway: report it with this line."
    )
    return _error("FaultError", what, remedy)


if __name__ == "__main__":
    code = main(sys.argv)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of libraries must not hold up a finished program
