"""The learning rate schedule: resumed as it was saved, with the trap that this is, and with the remedy."""

import hashlib
import json
import math
from pathlib import Path

import pytest

from tests.tasks.pod.trainers.tiny.conftest import Bench

COSINE = {"scheduler__type": "cosine", "ckpt__interval": 5}


def rates(output: Path) -> dict[int, float]:
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["lr"] for line in lines}


def test_a_cosine_falls_from_its_peak_to_nothing(bench: Bench) -> None:
    lr = rates(bench.train("run", max_steps=10, **COSINE))
    assert lr[1] == 0.004
    assert [lr[s] for s in range(1, 11)] == pytest.approx([0.002 * (1 + math.cos(math.pi * s / 10)) for s in range(10)])


def test_resumed_with_an_unchanged_config_it_is_the_same_bit_for_bit(bench: Bench) -> None:
    whole = bench.train("whole", max_steps=20, **COSINE)
    fork = bench.train("fork", max_steps=20, **COSINE, resume__dir=whole / "checkpoints/step_10")
    assert bench.losses(fork).items() <= bench.losses(whole).items()
    for name in ("model.safetensors", "state.json"):
        there = [output / "checkpoints/step_20" / name for output in (whole, fork)]
        assert there[0].read_bytes() == there[1].read_bytes()


def test_the_trap_a_later_end_climbs_back_to_the_peak(bench: Bench) -> None:
    parent = bench.train("parent", max_steps=10, **COSINE)
    lr = rates(bench.train("fork", max_steps=20, **COSINE, resume__dir=parent / "checkpoints/step_10"))
    assert lr[11] < 1e-9 < lr[15] < lr[20]
    assert lr[20] > 0.0039 * 0.95


def test_the_remedy_begins_a_new_schedule_over_the_steps_that_are_left(bench: Bench) -> None:
    parent = bench.train("parent", max_steps=10, **COSINE)
    resumed = {"resume__dir": parent / "checkpoints/step_10", "ckpt__skip_scheduler": True}
    fork = bench.train("fork", max_steps=20, **COSINE, **resumed)
    lr = rates(fork)
    assert lr[11] == 0.004 > lr[15] > lr[20]
    state = json.loads((fork / "checkpoints/step_20/state.json").read_text())
    assert state["scheduler"] == {"type": "cosine", "begin": 10, "steps": 10}


def test_a_checkpoint_from_before_there_were_schedules_goes_on(bench: Bench) -> None:
    parent = bench.train("parent", max_steps=10)
    whole = bench.losses(bench.train("whole", max_steps=15))
    state = parent / "checkpoints/step_10/state.json"
    marker = parent / "checkpoints/step_10/complete.json"
    old = json.loads(state.read_text())
    del old["scheduler"]
    state.write_text(json.dumps(old))
    told = json.loads(marker.read_text())
    told["files"]["state.json"] = {
        "size": state.stat().st_size,
        "sha256": hashlib.sha256(state.read_bytes()).hexdigest(),
    }
    marker.write_text(json.dumps(told))
    fork = bench.train("fork", max_steps=15, resume__dir=parent / "checkpoints/step_10")
    assert bench.losses(fork).items() <= whole.items()


def test_another_type_is_refused(bench: Bench) -> None:
    assert 'must be "constant" or "cosine", is \'linear\'' in bench.refused("run", scheduler__type="linear")
