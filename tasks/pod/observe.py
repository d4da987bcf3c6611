"""One look at many runs: new metrics lines, and what can be said of their checkpoints."""

from typing import Any

from tasks.pod.checkpoints.look import look
from tasks.pod.errors import NotThereError
from tasks.pod.layout import Layout
from tasks.pod.metrics import read_metrics
from tasks.pod.runs import GONE, attempts_of, begun, read_attempts


def observe(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """What is new in the runs of this volume.

    Args:
        arguments: {"runs": {id: {"metrics": file, "offset": bytes read before, "format": checkpoint format or null,
            "checkpoints": directory, "attempt": a number (optional)}}}, paths relative to the run's directory.

    Returns:
        {"runs": {id: {"metrics": new lines, "offset": for the next look, "checkpoints": the report's list,
        "begun": of the attempt that was asked for, when it started and what reading its weights took; or all that is
        on record of a later one as which its job went on}}}.

    Raises:
        NotThereError: no run is on record here: this is not the directory that they were launched in.
    """
    if not (layout.ours / "runs").is_dir():
        raise NotThereError("No run is on record on this volume any more.", GONE)
    asked: dict[str, dict[str, Any]] = arguments["runs"]
    reports = look(layout, {"runs": {r: {k: a[k] for k in ("format", "checkpoints")} for r, a in asked.items()}})
    answer = {}
    for run, ask in asked.items():
        rows, offset = read_metrics(layout.run(run) / ask["metrics"], ask["offset"])
        answer[run] = {
            "metrics": rows,
            "offset": offset,
            "checkpoints": reports["reports"][run]["checkpoints"],
            "begun": _begun(layout, run, ask["attempt"]) if ask.get("attempt") else None,
        }
    return {"runs": answer}


def _begun(layout: Layout, run: str, number: int) -> dict[str, Any]:
    if not (attempts_of(layout, run) / f"{number + 1}.json").exists():
        return begun(layout, run, number)
    attempts = read_attempts(layout, run)
    job = attempts[number - 1]["job"]
    return [attempt for attempt in attempts[number - 1 :] if attempt["job"] in (job, None)][-1]
