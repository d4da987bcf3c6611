"""`--trust`, end to end: a run that was refused is asked for again with it, and the record says so."""

import os
import shutil

from blocks.settings import load_settings
from tasks.runs.ask import ask_run
from tests.flows.cli.conftest import CONFIG, Slipway, _train


def test_a_refused_run_is_asked_for_again_with_trust(copied: Slipway, prefect_server: dict[str, str]) -> None:
    short = {"max_steps": 4}
    _train(copied, ask_run("doubted", CONFIG, load_settings(copied.folder / "slipway.toml").trainer(), changes=short))
    (home,) = copied.folder.glob("state/volumes/*/bench/runs/doubted")
    # as if the attempt had died after step 2, and its tree been copied
    end = home.parents[1] / ".slipway/runs/doubted/attempts/1.end.json"
    end.write_text(end.read_text().replace('"completed"', '"failed"'))
    shutil.rmtree(home / "checkpoints/step_4")
    os.utime(home / "checkpoints/step_2/complete.json", ns=(5, 5))

    fork = ("fork", "doubted", "--step", "2", "--max-steps", "6", "--name", "on", "--dry-run")
    refused = copied(*fork)
    assert refused.code == 1 and "Or say --trust checkpoints/step_2." in refused.err, refused
    taken = copied(*fork, "--trust", "checkpoints/step_2", "-o", "json")
    assert taken.code == 0, taken
    assert "complete.json is older than" in taken.json["resolved"]["source"]["trusted"]
    assert [item["subject"] for item in taken.json["items"] if item["mark"] == "warning"] == ["checkpoint"]

    again = ("train", "finetune.toml", "--name", "doubted", "--set", "max_steps=4")
    trusted = copied.process(*again, "--trust", "checkpoints/step_2", env=prefect_server)
    assert trusted.code == 0, trusted
    history = copied("runs", "show", "doubted", "-o", "json").json["history"]
    assert [(a["attempt"], a["resume"]["step"], a["trusted"]) for a in history] == [
        (1, 0, []),
        (2, 2, ["checkpoints/step_2"]),
    ]
