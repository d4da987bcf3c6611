"""`slipway runs release` and `slipway runs delete`."""

from pathlib import Path

from blocks.settings import load_settings
from tasks.runs.ask import ask_fork, ask_run
from tests.flows.cli.conftest import CONFIG, Slipway, _train


def test_holds_are_released_and_runs_deleted_in_the_right_order(bench: Slipway, tmp_path: Path) -> None:
    bench = bench.copy(tmp_path / "bench")
    place, trainer = bench.cluster, load_settings(bench.folder / "slipway.toml").trainer()
    _train(bench, ask_run("old", CONFIG, trainer, changes={"max_steps": 4}))
    _train(bench, ask_fork(place, "bench", "old", "new", step=2, changes={"max_steps": 6}))

    refused = bench("runs", "delete", "old", "--yes")
    assert refused.code == 1 and "held by new" in refused.err
    released = bench("runs", "release", "new", "-o", "json")
    assert (released.code, released.json["source"]) == (0, "runs/old/checkpoints/step_2"), released
    assert "held nothing any more" in bench("runs", "release", "new").err

    assert "Nothing was deleted." in bench("runs", "delete", "old", stdin="n\n").err
    unsaid = bench("runs", "delete", "old")
    assert unsaid.code == 2 and "--yes" in unsaid.err
    deleted = bench("runs", "delete", "old", "--yes", "-o", "json").json
    assert deleted["deleted"] and deleted["freed_bytes"] > 0

    listed = {row["run"]: row["parent"] for row in bench("runs", "list", "-o", "json").json}
    assert "old" not in listed and listed["new"] == "old"
    assert "step 2 of old" in bench("runs", "show", "new").out
    again = bench("train", "finetune.toml", "--name", "old", "--dry-run")
    assert again.code == 1 and "was deleted on" in again.err
    fork = bench("fork", "old", "--volume", "bench", "--name", "x", "--dry-run")
    assert fork.code == 1 and "run old was deleted on" in fork.err
    assert bench("runs", "delete", "new", "--yes").code == 0
