"""What must be true after `make demo`: the facts of its summary, the report, and that nothing of it still runs.

`python .ci/check_demo.py fresh|again`.
"""

import json
import sys
from pathlib import Path

import psutil

DEMO = Path(".slipway/demo")


def main(which: str) -> None:
    summary = json.loads((DEMO / "summary.json").read_text())
    parent, fork = summary["runs"]
    latest = parent["checkpoints"][-1]

    assert summary["volume"] == {"name": "research", "size": "1Gi", "cluster": "local"}, summary["volume"]
    assert len(summary["snapshot"]["commit"]) == 40, summary["snapshot"]
    assert summary["dataset"]["version"], summary["dataset"]
    assert [run["state"] for run in summary["runs"]] == ["completed", "completed"], summary["runs"]
    assert {c["verdict"] for run in summary["runs"] for c in run["checkpoints"]} == {"complete"}, summary["runs"]
    assert parent["continued_from"] is None and parent["last_step"] == latest["step"], parent
    assert fork["continued_from"]["run"] == parent["run"], fork
    assert fork["continued_from"]["step"] == latest["step"] < fork["last_step"], fork
    assert fork["first_step"] == latest["step"] + 1, fork
    assert parent["last_loss"] < parent["first_loss"] / 3, parent
    assert fork["last_loss"] < parent["last_loss"], (parent["last_loss"], fork["last_loss"])
    assert summary["reused"] == ([] if which == "fresh" else [parent["run"], fork["run"]]), summary["reused"]

    page = (DEMO / "report.html").read_text()
    assert "<svg" in page and parent["run"] in page and fork["run"] in page
    assert not any(f'{attribute}="http' in page for attribute in ("src", "href")), "the report loads something"

    assert not (left := list(still_running())), f"still running: {left}"
    print(f"The summary, the report and the processes are as they should be ({which}).")


def still_running() -> list[str]:
    """Command lines of processes of this checkout's Python, but for this one."""
    ours = str(Path(".venv").resolve())
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if process.pid != psutil.Process().pid and words and words[0].startswith(ours):
            found.append(" ".join(words))
    return found


if __name__ == "__main__":
    main(sys.argv[1])
