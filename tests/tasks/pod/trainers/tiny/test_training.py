"""That it learns, and that it goes on exactly where a checkpoint was taken."""

import hashlib
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tasks.pod.checkpoints.look import look
from tasks.pod.layout import Layout
from tasks.pod.trainers.tiny.network import Parameters, Sizes, gradients_of, initial, loss_of


def test_gradients_are_the_slopes_of_the_loss():
    sizes = Sizes(context_size=3, embedding_size=4, hidden_size=5)
    parameters, gradients = initial(sizes, 1), Parameters(sizes)
    random = np.random.default_rng(0)
    contexts = random.integers(0, 256, (16, 3), dtype=np.uint8)
    targets = random.integers(0, 256, 16, dtype=np.uint8)
    gradients_of(parameters, contexts, targets, gradients)
    for name, values in parameters.items():
        direction = np.sign(gradients[name])
        size = 1e-2 if name.startswith("output") else 1e-3
        sides = []
        for sign in (1, -1):
            values += np.float32(sign * size) * direction
            sides.append(loss_of(parameters, contexts, targets))
            values -= np.float32(sign * size) * direction
        slope = (sides[0] - sides[1]) / (2 * size)
        assert slope == pytest.approx(float(np.abs(gradients[name]).sum()), rel=0.02), name


def test_a_fork_reproduces_the_uninterrupted_losses_bit_for_bit(bench):
    whole = bench.train("whole", model__name=bench.model)
    half = bench.train("half", model__name=bench.model, max_steps=20)
    fork = bench.train("fork", model__name=bench.model, resume__dir=half / "checkpoints/step_20")

    assert list(bench.losses(fork)) == list(range(21, 41))
    assert bench.losses(half) | bench.losses(fork) == bench.losses(whole)
    for name in ("model.safetensors", "optimizer.safetensors", "state.json"):
        assert digest(fork / "checkpoints/step_40" / name) == digest(whole / "checkpoints/step_40" / name)


def test_a_fork_over_the_end_of_a_pass_reproduces_it_too(bench, tmp_path):
    (tmp_path / "short").mkdir()
    (tmp_path / "short/train.jsonl").write_text('{"text": "%s"}\n' % ("the tide comes in, the tide goes out. " * 40))
    given = {"data__name": tmp_path / "short", "data__batch_size": 7, "ckpt__interval": 9}
    whole = bench.train("whole", **given)
    fork = bench.train("fork", **given, resume__dir=whole / "checkpoints/step_27")
    assert bench.losses(fork).items() <= bench.losses(whole).items()
    assert json.loads((whole / "checkpoints/step_40/state.json").read_text())["order"]["epoch"] > 2


def test_the_loss_falls_well_below_its_start_also_on_held_out_text(bench):
    output = bench.train("run", model__name=bench.model, max_steps=60)
    losses = [float(loss) for loss in bench.losses(output).values()]
    assert losses[0] == pytest.approx(np.log(256), abs=0.1)
    assert sum(losses[-5:]) / 5 < 0.4 * losses[0]
    last = json.loads((output / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["val_loss"] < 0.4 * losses[0]
    assert last.keys() == {"step", "loss", "lr", "tokens", "val_loss", "seconds", "time"}
    assert last["tokens"] == 60 * 8 * 32


def test_a_changed_learning_rate_changes_the_fork_after_its_first_step(bench):
    whole = bench.train("whole", max_steps=20)
    fork = bench.train("fork", max_steps=20, optim__lr=0.001, resume__dir=whole / "checkpoints/step_10")
    ours, theirs = bench.losses(fork), bench.losses(whole)
    assert ours[11] == theirs[11]
    assert all(ours[step] != theirs[step] for step in range(12, 21))


def test_weights_in_one_file_are_the_same_as_in_shards(bench, tmp_path):
    single = tmp_path / "single"
    single.mkdir()
    (single / "config.json").write_bytes((bench.small_model / "config.json").read_bytes())
    tensors = {
        name: value for shard in bench.small_model.glob("*.safetensors") for name, value in load_file(shard).items()
    }
    save_file(tensors, single / "model.safetensors")
    assert bench.losses(bench.train("a", max_steps=5)) == bench.losses(
        bench.train("b", max_steps=5, model__name=single)
    )


def test_prompts_are_read_but_not_predicted(bench, tmp_path):
    pairs = tmp_path / "pairs"
    pairs.mkdir()
    rows = [{"prompt": f"berth {number}: ", "completion": "free"} for number in range(200)]
    (pairs / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = bench.train("run", data__name=pairs, max_steps=60, optim__lr=0.01)
    assert float(bench.losses(output)[60]) < 0.1  # the numbers in the prompts could not be learned that well


@pytest.mark.parametrize(
    ("ckpt", "steps"),
    [
        (None, []),
        ({}, [25]),
        ({"interval": 10}, [10, 20, 25]),
        ({"interval": 5, "keep_last": 2}, [20, 25]),
        ({"interval": 5, "keep_last": 1, "keep_interval": 10}, [10, 20, 25]),
        ({"interval": 5, "keep_interval": 10}, [10, 20, 25]),
    ],
)
def test_which_checkpoints_are_saved_and_kept(bench, ckpt, steps):
    output = bench.train("run", ckpt=ckpt, max_steps=25)
    assert sorted(int(path.name[5:]) for path in output.glob("checkpoints/*")) == steps


def test_going_on_in_the_same_directory_leaves_no_step_twice(bench):
    whole = bench.train("run")
    before = bench.losses(whole)
    with (whole / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"step": 41, "lo')  # as a killed writer leaves it
    again = bench.train("run", resume__dir=whole / "checkpoints/step_20")
    assert bench.losses(again) == before
    assert all(later == earlier + 1 for earlier, later in pairwise(bench.losses(again)))


def test_other_data_begin_a_new_pass(bench, tmp_path):
    source = bench.train("source", max_steps=10)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/train.jsonl").write_text('{"text": "%s"}\n' % ("ebb and flow " * 100))
    process = bench.start(
        bench.config("fork", data__name=tmp_path / "other", resume__dir=source / "checkpoints/step_10")
    )
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "a new pass over it begins" in out


def test_what_it_saves_is_judged_complete_to_the_last_byte(bench):
    output = bench.train("runs/a", max_steps=20)
    (output / "checkpoints/step_10/complete.json").unlink()
    found = look(Layout(bench.place), {"runs": ["a"], "deep": True})["reports"]["a"]["checkpoints"]
    verdicts = {checkpoint["step"]: (checkpoint["format"], str(checkpoint["verdict"])) for checkpoint in found}
    assert verdicts == {10: ("tiny", "incomplete"), 20: ("tiny", "complete")}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
