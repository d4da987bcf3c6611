"""The program that looks at the checkpoints of runs, all of a volume's in one call; what was complete and has not
changed is not read again."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from tasks.pod import holds, records
from tasks.pod.checkpoints import names
from tasks.pod.checkpoints.deep import LIMITED
from tasks.pod.checkpoints.elsewhere import elsewhere, leads_out
from tasks.pod.checkpoints.find import find
from tasks.pod.checkpoints.judge import judge
from tasks.pod.checkpoints.verdict import Checkpoint, Report
from tasks.pod.errors import ChangedError
from tasks.pod.layout import Layout, volume_relative

_CACHE = "checkpoints.json"


def look(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Judge the checkpoints of runs, or of one path.

    Args:
        layout: the volume.
        arguments: `{"runs": …}` with a list of run ids or a mapping of run id to `{"format", "checkpoints"}` (a format
            name, and the directory of the step directories relative to the run's); all runs if it is absent; or
            `{"path": …}`, a directory on the volume or one step in it. `"deep": true` reads every byte.

    Returns:
        `{"reports": {run id or path: report}}`; paths in a report are relative to the run's directory, or to the path
        where it is no run's. Each checkpoint has `held_by`: the forks that hold it. A run without a directory has an
        empty report.

    Raises:
        BadInputError: a path leads out of the volume, or there is no such format.
        NotThereError: nothing is there by the path.
    """
    deep = bool(arguments.get("deep"))
    held = holds.holders(layout)
    if "path" in arguments:
        key, root, report = _look_at(layout, str(arguments["path"]), arguments.get("format"), deep)
        return {"reports": {key: _shown(report, root, held)}}
    runs = arguments.get("runs")
    if runs is None:
        runs = sorted(path.name for path in layout.runs.iterdir() if path.is_dir()) if layout.runs.is_dir() else []
    wanted: Mapping[str, Mapping[str, Any]] = runs if isinstance(runs, Mapping) else {str(run): {} for run in runs}
    reports = {}
    for run, asked in wanted.items():
        report = _look_at_run(layout, run, asked or {}, deep)
        reports[run] = _shown(report, f"runs/{run}", held)
    return {"reports": reports}


def _look_at_run(layout: Layout, run: str, asked: Mapping[str, Any], deep: bool) -> Report:
    below = volume_relative(asked.get("checkpoints") or ".")
    home = layout.run(run)
    root, shown = home / below, layout.relative(home)
    if leads_out(root, home):
        return Report(shown, None, (elsewhere(root, below, None),))
    if not root.is_dir():
        return Report(shown, None, ())
    cache, kind = _Cache(layout.records(run) / _CACHE, deep), asked.get("format")
    prefix = "" if below == "." else f"{PurePosixPath(below).as_posix().strip('/')}/"
    report = find(root, format=kind, deep=deep, known=cache.known(prefix, kind), home=home)
    found = [_moved(checkpoint, prefix) for checkpoint in report.checkpoints]
    cache.keep(found, prefix, kind)
    latest = report.latest_complete
    return Report(shown, None if latest is None else _joined(prefix, latest), tuple(found))


def _look_at(layout: Layout, path: str, kind: str | None, deep: bool) -> tuple[str, str, Report]:
    """What is below a path, or the step that it is; the key, the root on the volume, and the report."""
    found = layout.resolve(path)
    relative = PurePosixPath(found.relative_to(layout.root).as_posix())
    in_run = relative.parts[:1] == ("runs",) and len(relative.parts) > 1
    run = relative.parts[1] if in_run else relative.as_posix()
    root = f"runs/{run}" if in_run else relative.as_posix()
    prefix = "".join(f"{part}/" for part in relative.parts[2:]) if in_run else ""
    name = names.read(found.name, found.is_dir())
    if (name and name.certain) or found.is_file():
        checkpoints = [_moved(judge(found, format=kind, deep=deep), "", prefix.rstrip("/") or ".")]
    else:
        checkpoints = [_moved(c, prefix) for c in find(found, format=kind, deep=deep).checkpoints]
    complete = [c.path for c in checkpoints if c.complete]
    return run, root, Report(root, complete[-1] if complete else None, tuple(checkpoints))


def _joined(prefix: str, path: str) -> str:
    return prefix.rstrip("/") or "." if path == "." else prefix + path


def _moved(checkpoint: Checkpoint, prefix: str, path: str | None = None) -> Checkpoint:
    return replace(checkpoint, path=_joined(prefix, checkpoint.path) if path is None else path)


def _shown(report: Report, root: str, held: Mapping[str, list[str]]) -> dict[str, Any]:
    record = report.to_json()
    for checkpoint in record["checkpoints"]:
        source = root if checkpoint["path"] == "." else f"{root}/{checkpoint['path']}"
        checkpoint["held_by"] = held.get(source, [])
    return record


class _Cache:
    """Earlier verdicts of a run. Only a hint: without it, or with a damaged one, everything is read again.

    Complete ones are kept, and what only a deep look found: else the next cheap one would call it complete.
    """

    def __init__(self, path: Path, deep: bool) -> None:
        self._path = path
        self._deep = deep
        try:
            self._entries = list((records.read_if_there(path) or {}).get("checkpoints", []))
        except (ChangedError, OSError, TypeError):
            self._entries = []

    def known(self, prefix: str, kind: str | None) -> dict[str, Checkpoint]:
        """What a look of this depth need not read again, by path relative to `prefix`."""
        known = {}
        for entry in self._entries:
            try:
                checkpoint = Checkpoint.from_json(entry["checkpoint"])
                usable = entry["format"] == kind and (entry["deep"] or (checkpoint.complete and not self._deep))
            except (KeyError, TypeError, ValueError):
                continue
            if usable and checkpoint.path.startswith(prefix):
                path = checkpoint.path[len(prefix) :]
                known[path] = _moved(checkpoint, "", path)
        return known

    def keep(self, found: Iterable[Checkpoint], prefix: str, kind: str | None) -> None:
        """Write down what was found, if that can be done and differs from what is there."""
        were_deep = set()
        for entry in self._entries:
            if isinstance(entry, dict) and entry.get("deep") and isinstance(entry.get("checkpoint"), dict):
                were_deep.add((entry["checkpoint"].get("path"), entry["checkpoint"].get("fingerprint")))
        entries = []
        for checkpoint in found:
            deep = self._deep or (checkpoint.path, checkpoint.fingerprint) in were_deep
            if checkpoint.complete or (deep and not checkpoint.why.startswith(LIMITED)):
                entries.append({"checkpoint": checkpoint.to_json(), "deep": deep, "format": kind})
        if entries == self._entries:
            return
        try:
            records.replace(self._path, {"checkpoints": entries})
        except OSError:  # a session that mounts the volume read-only
            return
