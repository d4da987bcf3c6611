"""What the tiny trainer's adapter finds wrong, asks for and renders."""

import tomllib
from dataclasses import replace

import pytest

from tasks.pod.trainers.adapter import Needs, Places
from tasks.pod.trainers.tiny.adapter import Tiny
from tasks.pod.trainers.toml_config import set_keys

TINY = Tiny()
GOOD = {
    "volume": "research",
    "volume_size": "500Gi",
    "max_steps": 100,
    "model": {"name": "slipway/tiny-lm@main"},
    "data": {"name": "datasets/harbour"},
}


def test_good_configs_have_no_problems():
    for changes in (
        {},
        {"model.name": "/volume/models/mine"},
        {"data.name": "/volume/datasets/harbour/v1", "data.batch_size": 4},
        {"optim": {"lr": 1, "betas": [0.9, 0.95], "weight_decay": 0}},
        {"ckpt": {}, "resume.dir": "/volume/runs/a/checkpoints/step_99/"},
        {"pace.step_seconds": 0.5, "seed": 0},
    ):
        assert TINY.problems(set_keys(GOOD, changes)) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"optim.lr": "abc"}, "optim.lr: must be a number above 0, is 'abc'. Write for example 0.001."),
        ({"optim.lr": 0}, "optim.lr: must be a number above 0, is 0. Write for example 0.001."),
        ({"optim.lr": float("nan")}, "optim.lr: must be a number above 0, is nan. Write for example 0.001."),
        ({"max_steps": True}, "max_steps: must be a whole number of at least 1, is true. Write for example 100."),
        ({"max_steps": 10.5}, "max_steps: must be a whole number of at least 1, is 10.5. Write for example 100."),
        (
            {"optim.betas": [0.9]},
            (
                "optim.betas: must be a list of 2 items, each a number of at least 0 and below 1, is [0.9]. "
                "Write for example [0.9, 0.999]."
            ),
        ),
        (
            {"optim.learning_rat": 1},
            (
                "optim.learning_rat: is no key that this trainer knows. Remove it. "
                "Known in [optim]: betas, lr, weight_decay."
            ),
        ),
        ({"max_step": 5}, "max_step: is no key that this trainer knows. Did you mean max_steps?"),
        ({"lr": 5}, "lr: is no key that this trainer knows. Did you mean optim.lr?"),
        ({"optimizer": {"lr": 5}}, "optimizer: is no key that this trainer knows. Did you mean [optim]?"),
        ({"ckpt.keep_lst": 5}, "ckpt.keep_lst: is no key that this trainer knows. Did you mean ckpt.keep_last?"),
        ({'"optim.lr"': 5}, '"optim.lr": is no key that this trainer knows. Did you mean optim.lr?'),
        ({"optim": 3}, "optim: must be a table, is 3. Write [optim] and its keys below it."),
        ({"model": {}}, 'model.name: is missing. Add `name = "org/name@revision"` to [model].'),
        (
            {"model.name": "gpt2"},
            (
                "model.name: is neither a path on the volume nor a Hub id: 'gpt2'. "
                "Write /volume/models/NAME, or org/name or org/name@revision."
            ),
        ),
        (
            {"model.name": "/volume/../etc"},
            ("model.name: is no plain path: '/volume/../etc'. Write it without '..' and control characters."),
        ),
        (
            {"data.name": "my/data"},
            (
                "data.name: is no dataset on the volume: 'my/data'. "
                "Stage it, and write datasets/NAME or datasets/NAME/VERSION."
            ),
        ),
        ({"resume": {}}, "resume.dir: is missing. Add a checkpoint's step directory, or remove [resume]."),
        (
            {"resume.dir": "/volume/runs/a/checkpoints/latest"},
            (
                "resume.dir: has to end in step_<digits>, ends in 'latest'. "
                "Name a checkpoint's step directory, such as /volume/runs/RUN/checkpoints/step_100."
            ),
        ),
        (
            {"resume.dir": "runs/a/checkpoints/step_5"},
            (
                "resume.dir: is not on the volume: "
                "'runs/a/checkpoints/step_5'. Write it as in /volume/runs/RUN/checkpoints/step_100."
            ),
        ),
        (
            {"resume.dir": "/volume/runs/a/checkpoints/step_100"},
            (
                "max_steps: is 100, and the checkpoint to continue from is at step 100 already. "
                "It counts from the start of the original training: set it above 100."
            ),
        ),
    ],
)
def test_a_bad_config_is_told_by_key_reason_and_remedy(changes, told):
    assert [str(problem) for problem in TINY.problems(set_keys(GOOD, changes))] == [told]


def test_every_problem_is_told_at_once():
    problems = TINY.problems({"max_steps": 0, "model": "x", "data": {"nam": 1}})
    assert [problem.key for problem in problems] == ["max_steps", "model", "data.nam", "data.name"]


READS = {"formats": ("jsonl",), "columns": (("text",), ("prompt", "completion"))}


def test_needs():
    plain = TINY.needs(GOOD)
    assert replace(plain, schedule_remedy="") == Needs(
        "slipway/tiny-lm@main", "datasets/harbour", 100, checkpoint_every=0, schedule="constant", **READS
    )
    asked = set_keys(
        GOOD,
        {
            "data.name": "/volume/datasets/harbour/v2/",
            "ckpt": {"keep_last": 2},
            "resume.dir": "/volume/runs/a/checkpoints/step_5/",
        },
    )
    assert TINY.needs(asked) == Needs(
        "slipway/tiny-lm@main",
        "/volume/datasets/harbour/v2",
        100,
        resume="/volume/runs/a/checkpoints/step_5",
        checkpoint_every=None,
        keep_last=2,
        schedule="constant",
        schedule_remedy=plain.schedule_remedy,
        **READS,
    )
    assert TINY.needs(set_keys(GOOD, {"scheduler.type": "cosine"})).schedule == "cosine"
    assert TINY.needs(set_keys(GOOD, {"scheduler.type": "cosine", "ckpt.skip_scheduler": True})).schedule is None
    assert TINY.needs(set_keys(GOOD, {"ckpt.interval": 7})).checkpoint_every == 7
    assert TINY.needs(set_keys(GOOD, {"data.name": "/volume/datasets/harbour"})).dataset == "datasets/harbour"


def test_rendering_sets_what_the_platform_knows_and_leaves_the_rest():
    given = set_keys(GOOD, {"optim": {"lr": 3e-4, "betas": [0.9, 0.95]}, "ckpt": {}, "data.seq_len": 64})
    places = Places("/volume/hub/w", "/volume/datasets/harbour/v1", "/volume/runs/r", "/volume/holds/r/step_5", "/s")
    assert tomllib.loads(TINY.render(given, places)) == {
        "max_steps": 100,
        "output_dir": "/volume/runs/r",
        "model": {"name": "/volume/hub/w"},
        "data": {"name": "/volume/datasets/harbour/v1", "seq_len": 64},
        "optim": {"lr": 3e-4, "betas": [0.9, 0.95]},
        "ckpt": {},
        "resume": {"dir": "/volume/holds/r/step_5"},
    }
    assert given["volume"] == "research" and given["model"]["name"] == "slipway/tiny-lm@main"


def test_rendering_a_fresh_start_takes_a_resume_away():
    given = set_keys(GOOD, {"resume.dir": "/volume/runs/a/checkpoints/step_5"})
    places = Places("/volume/w", "/volume/d", "/volume/runs/r", None, "/s")
    assert "resume" not in tomllib.loads(TINY.render(given, places))


def test_the_rest_of_the_port():
    assert TINY.command(GOOD, "/x/config.toml", gpus=8, nodes=1)[-2:] == ("@", "/x/config.toml")
    assert TINY.step_directory(7) == "checkpoints/step_7"
