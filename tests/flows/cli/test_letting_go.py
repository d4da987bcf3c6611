"""`slipway runs release` and `slipway runs delete`."""

from blocks.settings import load_settings
from tasks.runs.ask import ask_fork, ask_run
from tests.flows.cli.conftest import CONFIG, Slipway, _train


def test_holds_are_released_and_runs_deleted_in_the_right_order(copied: Slipway) -> None:
    place, trainer = copied.cluster, load_settings(copied.folder / "slipway.toml").trainer()
    _train(copied, ask_run("old", CONFIG, trainer, changes={"max_steps": 4}))
    _train(copied, ask_fork(place, "bench", "old", "new", step=2, changes={"max_steps": 6}))

    refused = copied("runs", "delete", "old", "--yes")
    assert refused.code == 1 and "held by new" in refused.err
    released = copied("runs", "release", "new", "-o", "json")
    assert (released.code, released.json["source"]) == (0, "runs/old/checkpoints/step_2"), released
    assert "held nothing any more" in copied("runs", "release", "new").err

    assert "Nothing was deleted." in copied("runs", "delete", "old", stdin="n\n").err
    unsaid = copied("runs", "delete", "old")
    assert unsaid.code == 2 and "--yes" in unsaid.err
    deleted = copied("runs", "delete", "old", "--yes", "-o", "json").json
    assert deleted["deleted"] and deleted["freed_bytes"] > 0

    listed = {row["run"]: row["parent"] for row in copied("runs", "list", "-o", "json").json}
    assert "old" not in listed and listed["new"] == "old"
    assert "step 2 of old" in copied("runs", "show", "new").out
    again = copied("train", "finetune.toml", "--name", "old", "--dry-run")
    assert again.code == 1 and "was deleted on" in again.err
    fork = copied("fork", "old", "--volume", "bench", "--name", "x", "--dry-run")
    assert fork.code == 1 and "run old was deleted on" in fork.err
    assert copied("runs", "delete", "new", "--yes").code == 0
