"""`slipway checkpoints`: which steps are complete, with evidence; of a run, or of anybody's output directory."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.command import NamedCommand
from flows.cli.options import ClusterName, OfVolume, Output, OutputFormat, Owner
from flows.cli.show import say, show_json, show_table

if TYPE_CHECKING:
    from tasks.pod.checkpoints.verdict import Report

_SHOWN = ("path", "step", "format", "verdict", "why", "resumable", "bytes", "fingerprint", "held_by")
_DAY = 86_400


def add_to(app: typer.Typer) -> None:
    app.command(cls=NamedCommand)(checkpoints)


def checkpoints(
    run_or_dir: Annotated[str, typer.Argument(metavar="RUN|DIRECTORY", help="A run, or a trainer's output directory.")],
    deep: Annotated[bool, typer.Option("--deep", help="Read every byte of those that look complete.")] = False,
    volume: OfVolume = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Show which checkpoints are complete, and why. A directory needs no volume, no settings and no run."""
    if volume is None and _is_path(run_or_dir):
        report = _of_directory(Path(run_or_dir).expanduser(), deep).to_json()
    else:
        report = _of_run(run_or_dir, volume, cluster, owner, deep)
    if output is Output.JSON:
        found = [{key: c[key] for key in _SHOWN if key in c} for c in report["checkpoints"]]
        show_json({"root": report["root"], "latest_complete": report["latest_complete"], "checkpoints": found})
        return
    show_checkpoints(report["checkpoints"])
    if report["checkpoints"]:
        newest = report["latest_complete"]
        say(f"\nThe newest complete one is {newest}." if newest else "\nNone of them is complete.")


def show_checkpoints(found: list[dict[str, Any]]) -> None:
    from blocks.clusters.size import format_size

    held = any(c.get("held_by") for c in found)
    show_table(
        ("step", "verdict", "size", "format", "path", "evidence", *(("held by",) if held else ())),
        [
            (
                "" if c["step"] is None else str(c["step"]),
                *(c["verdict"], format_size(c["bytes"]), c["format"], c["path"]),
                c["why"] + ("" if c["resumable"] or c["verdict"] != "complete" else "; weights only"),
                *((", ".join(c.get("held_by", ())),) if held else ()),
            )
            for c in found
        ],
        empty="There is no checkpoint.",
        right=("step", "size"),
        wraps="evidence",
    )


def _is_path(text: str) -> bool:
    return os.sep in text or text in (".", "..", "~") or (bool(text) and Path(text).is_dir())


def _of_directory(path: Path, deep: bool) -> "Report":
    from tasks.pod.checkpoints.find import find
    from tasks.pod.checkpoints.judge import judge
    from tasks.pod.checkpoints.verdict import Report

    if path.is_file():
        one = judge(path, deep=deep)
        return Report(str(path.parent), one.path if one.complete else None, (one,))
    return find(path, deep=deep)


def _of_run(run: str, volume: str | None, cluster: str | None, owner: str | None, deep: bool) -> dict[str, Any]:
    from flows.cli.place import connect, volume_of
    from tasks.runs.launch import read_run

    place = connect(cluster, owner)
    where = volume_of(place, run, volume)
    trainer = read_run(place, where, run).plan.trainer
    ask = {"format": trainer.checkpoint_format, "checkpoints": trainer.checkpoints}
    arguments = {"runs": {run: ask}, "deep": deep}
    report: dict[str, Any] = place.call(where, "checkpoints.look", arguments, timeout_seconds=_DAY)["reports"][run]
    return report
