"""Sweep files: what is read, and what is refused in one sentence."""

from pathlib import Path

import pytest

from blocks.clusters.errors import SlipwayError, UsageError
from tasks.pod.errors import BadInputError
from tasks.sweeps.ask import read_search, read_sweep_file
from tasks.sweeps.plan import make_sweep_plan
from tests.tasks.sweeps.conftest import SweepDesk, search

FILE = """
name = "lr"
config = "finetune.toml"
method = "grid"
metric = "val_loss"
set = { max_steps = 5 }

[axes.optim.lr]
log_range = [0.001, 0.1]
points = 3

[axes]
"data.batch_size" = { choices = [2, 4], when = { "optim.lr" = 0.001 } }

[limits]
parallel = 4
"""


def test_a_file_is_read_with_axes_written_either_way(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(FILE)
    read = read_sweep_file(path)
    assert (read.name, read.config, read.changes) == ("lr", tmp_path / "finetune.toml", {"max_steps": 5})
    assert sorted(read.search.axes) == ["data.batch_size", "optim.lr"]
    assert read.search.planned == 4 and read.search.limits.parallel == 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("metric =", "metrik ="), "metrik is unknown; did you mean metric"),
        (("config =", "konfig ="), "konfig is unknown; did you mean config"),
        (("parallel", "paralel"), r"limits\.paralel is unknown; did you mean parallel"),
        (("points", "point"), r"axes\.optim\.lr\.point is unknown; did you mean points"),
        (('"grid"', '"gird"'), "method"),
        (("parallel = 4", "parallel = 0"), r"limits\.parallel"),
        (('name = "lr"', "name = 3"), "name is 3"),
        (("points = 3", ""), "number of points"),
        (('"optim.lr" = 0.001', '"optim.rl" = 0.001'), r"Did you mean 'optim\.lr'"),
        (("parallel = 4", "parallel = true"), r"limits\.parallel: has to be a whole number, is True"),
        (("parallel = 4", "parallel = 4.0"), r"limits\.parallel: has to be a whole number, is 4\.0"),
        (("parallel = 4", 'parallel = "4"'), r"limits\.parallel: has to be a whole number, is '4'"),
        (("parallel = 4", "hours = true"), r"limits\.hours: has to be a number, is True"),
        (("[0.001, 0.1]", "[true, 2]"), r"has to be a number, is True"),
        (("choices = [2, 4]", 'choices = "24"'), r"choices: has to be a list, is '24'"),
        (("[limits]", "[stop]\ndiverged = 1\n[limits]"), r"stop\.diverged: has to be true or false, is 1"),
        (("parallel = 4", "parallel = 1.5"), r"limits\.parallel: has to be a whole number, is 1\.5"),
        (("choices = [2, 4]", "choices = []"), "has 0 items, and has to have 1"),
        (("log_range = [0.001, 0.1]", "log_range = 3"), r"log_range: has to be a list, is 3"),
        (("[axes]", "[axes." + ".".join("a" * 3000) + "]\nchoices = [1]\n[axes]"), "nested too deeply"),
        (("[axes.optim.lr]", 'dataset = { name = 3, source = "x" }\n[axes.optim.lr]'), r"dataset\.name is 3"),
    ],
)
def test_what_a_file_can_not_say_is_named(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(FILE.replace(*change))
    with pytest.raises((UsageError, BadInputError), match=words):
        read_sweep_file(path)


def test_a_change_within_a_table_leaves_the_rest_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(FILE.replace("set = { max_steps = 5 }", 'set = { optim.lr = 1, "a.b" = 2, e = {} }'))
    assert read_sweep_file(path).changes == {"optim.lr": 1, "a.b": 2, "e": {}}


def test_a_file_that_is_not_there_or_no_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(SlipwayError, match="can not be read"):
        read_sweep_file(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = ")
    with pytest.raises(Exception, match=r"bad\.toml is not valid TOML: line 1"):
        read_sweep_file(tmp_path / "bad.toml")


def test_methods_that_set_the_steps_do_not_take_them_as_an_axis() -> None:
    axes = {"max_steps": {"choices": [1, 2]}}
    with pytest.raises(UsageError, match="sets max_steps itself"):
        read_search({"method": "halving", "axes": axes}, "the search")
    with pytest.raises(UsageError, match="trains at once"):
        read_search({"method": "pbt", "axes": {"a": {"choices": [1]}}}, "the search")


def test_the_settings_of_other_methods_make_no_other_sweep(sweeps: SweepDesk) -> None:
    one = sweeps.request("s", search("random"))
    two = sweeps.request("s", search("random", halving={"min_steps": 99}))
    other = sweeps.request("s", search("random", seed=1))
    assert one.request_hash() == two.request_hash() != other.request_hash()


def test_a_name_leaves_room_for_the_trials(sweeps: SweepDesk) -> None:
    with pytest.raises(UsageError, match="36 at most"):
        sweeps.request("s" * 37, search())


def test_a_trainer_whose_last_step_is_elsewhere_is_named_by_the_plan(sweeps: SweepDesk) -> None:
    how = search("halving", {"optim.lr": {"choices": [0.001, 0.002]}}, steps_key="ckpt.interval")
    plan = make_sweep_plan(sweeps.desk.cluster, sweeps.desk.hub, sweeps.request("s", how))
    assert [(item.subject, "steps_key" in item.remedy) for item in plan.blocked] == [("search steps_key", True)]
