"""Reading every byte of a checkpoint, in a process of its own with a limit of time and memory: what is hostile or
huge ends as `unknown`, and takes nobody with it."""

import json
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tasks.pod.checkpoints import table
from tasks.pod.checkpoints.examine import examine
from tasks.pod.checkpoints.format import Finding, Format, Step
from tasks.pod.checkpoints.tree import Tree, scan
from tasks.pod.checkpoints.verdict import Verdict

LIMITED = "the deep check was ended"
"""How the evidence begins where a limit, not the content, decided."""

LEAST_SECONDS = 60.0
BYTES_A_SECOND = 20_000_000
"""A check may take as long as this slow a disk takes to read it, on top of `LEAST_SECONDS`."""

MEMORY = int(os.environ.get("SLIPWAY_DEEP_MEMORY", 2 << 30))
"""Bytes of address space of the process."""


def examine_apart(step: Step, chosen: Format | None, cheap: Finding, seconds: float | None = None) -> Finding:
    """Judge a step by every byte.

    Args:
        step: what the headers had nothing against.
        chosen: its format.
        cheap: what was found by the headers.
        seconds: wall-clock limit; by the size of the step if None.
    """
    if chosen is None:
        return cheap
    limit = LEAST_SECONDS + step.tree.size / BYTES_A_SECOND if seconds is None else seconds
    request = {
        "path": str(_path(step.tree)), "format": chosen.name, "fixed": step.fixed,
        "number": step.number, "named": step.named, "name": step.name,
        "seconds": limit, "siblings": [str(_path(tree)) for tree in step.siblings()],
    }  # fmt: skip
    try:
        done = subprocess.run(
            # -P: the directory that somebody looks at from must not be a place to import from
            [sys.executable, "-P", "-m", "tasks.pod.checkpoints.deep"],
            input=json.dumps(request), capture_output=True, text=True, timeout=limit,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return replace(cheap, verdict=Verdict.UNKNOWN, why=f"{LIMITED} after {limit:,.0f} seconds")
    if done.returncode:
        return replace(cheap, verdict=Verdict.UNKNOWN, why=f"{LIMITED} by its limits (exit code {done.returncode})")
    answer = json.loads(done.stdout)
    return replace(cheap, verdict=Verdict(answer["verdict"]), why=answer["why"])


def _path(tree: Tree) -> Path:
    return tree.root / tree.single if tree.single else tree.root


def main() -> None:
    request = json.load(sys.stdin)
    seconds = int(request["seconds"]) + 1
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    step = Step(
        scan(Path(request["path"])), request["number"], request["named"], request["name"],
        deep=True, fixed=request["fixed"], siblings=lambda: [scan(Path(path)) for path in request["siblings"]],
    )  # fmt: skip
    _, finding = examine(step, table.named(request["format"]))
    if finding.why.startswith("it can not be read: MemoryError"):
        finding = replace(finding, why=f"{LIMITED} by its memory limit")
    json.dump({"verdict": finding.verdict, "why": finding.why}, sys.stdout)


if __name__ == "__main__":
    main()
