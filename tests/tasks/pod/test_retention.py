"""Retention takes away what nobody needs, and nothing else: not when it is killed, not when two run at once."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.pod import holds, retention, runs, trash
from tasks.pod.checkpoints.find import find
from tasks.pod.checkpoints.judge import judge
from tasks.pod.errors import BadInputError, NotThereError
from tasks.pod.layout import Layout
from tasks.pod.retention import Policy, fates
from tests.tasks.pod.checkpoints.writers import write_tiny
from tests.tasks.pod.retained import attempt, claim, hold, source, step

REPOSITORY = Path(__file__).parents[3]
LAST = {"keep_last": 1, "grace_seconds": 0}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def steps(layout: Layout, run: str) -> list[int | None]:
    home = layout.run(run)
    return [c.step for c in find(home).checkpoints] if home.is_dir() else []


def deleted(answer: dict[str, Any]) -> list[Any]:
    return [item["step"] for run in answer["runs"] for item in run["deleted"]]


def test_the_last_ones_and_the_multiples_stay(layout: Layout) -> None:
    claim(layout, "r", *range(10, 130, 10))
    answer = retention.prune(layout, {"keep_last": 2, "keep_every": 50, "grace_seconds": 0})
    assert steps(layout, "r") == [50, 100, 110, 120]
    assert deleted(answer) == [10, 20, 30, 40, 60, 70, 80, 90]  # oldest first


def test_a_plan_says_the_same_and_changes_nothing(layout: Layout) -> None:
    claim(layout, "r", 10, 20, 30)
    planned = retention.plan(layout, LAST)
    assert steps(layout, "r") == [10, 20, 30]
    done = retention.prune(layout, LAST)
    assert deleted(planned) == deleted(done) == [10, 20]
    assert planned["freed_bytes"] == done["freed_bytes"] > 0
    assert not list(layout.trash.iterdir())
    assert retention.prune(layout, LAST)["freed_bytes"] == 0


def test_without_a_policy_nothing_goes(layout: Layout) -> None:
    claim(layout, "r", 10, 20)
    assert deleted(retention.prune(layout, {"grace_seconds": 0})) == []
    assert steps(layout, "r") == [10, 20]


def test_a_runs_own_policy_beats_the_volumes_but_not_what_is_said_of_it_by_name(layout: Layout) -> None:
    claim(layout, "own", 10, 20, 30, retention={"keep_last": 3, "keep_every": None})
    claim(layout, "none", 10, 20, 30)
    retention.prune(layout, LAST)
    assert (steps(layout, "own"), steps(layout, "none")) == ([10, 20, 30], [30])
    retention.prune(layout, {"runs": ["own"], "grace_seconds": 0})
    assert steps(layout, "own") == [10, 20, 30]
    retention.prune(layout, {"runs": ["own"], **LAST})
    assert steps(layout, "own") == [30]


def test_what_changed_within_the_grace_time_stays(layout: Layout) -> None:
    claim(layout, "r", 10, 20)
    assert deleted(retention.prune(layout, {"keep_last": 1})) == []
    assert steps(layout, "r") == [10, 20]


def test_a_newest_step_that_is_torn_or_unclear_is_no_proof(layout: Layout) -> None:
    claim(layout, "r", 10, 20, 30, 40)
    (step(layout, "r", 40) / "complete.json").unlink()
    os.utime(step(layout, "r", 30) / "complete.json", ns=(5, 5))
    assert deleted(retention.prune(layout, LAST)) == [10]
    assert steps(layout, "r") == [20, 30, 40]
    (step(layout, "r", 20) / "complete.json").unlink()
    assert deleted(retention.prune(layout, LAST)) == []


def test_a_torn_step_before_a_complete_one_goes(layout: Layout) -> None:
    claim(layout, "r", 10, 20)
    (step(layout, "r", 10) / "complete.json").unlink()
    (item,) = retention.prune(layout, {"keep_last": 5, "grace_seconds": 0})["runs"][0]["deleted"]
    assert item["why"] == "torn (complete.json is missing), and checkpoints/step_20 is complete"
    assert steps(layout, "r") == [20]


def test_what_is_held_stays_and_links_are_not_counted_as_freed(layout: Layout) -> None:
    claim(layout, "r", 10, 20, 30)
    claim(layout, "f")
    hold(layout, "f", "r", 10)
    answer = retention.prune(layout, LAST)
    assert steps(layout, "r") == [10, 30]
    assert answer["runs"][1]["kept"][0]["why"] == "held by f"
    os.link(step(layout, "r", 10) / "model.safetensors", layout.root / "elsewhere")
    holds.release(layout, {"fork": "f"})
    files = [f for f in step(layout, "r", 10).iterdir() if f.name != "model.safetensors"]
    freed = sum(f.lstat().st_blocks * 512 for f in [*files, step(layout, "r", 10)])
    attempt(layout, "f", 1, None, ended=True)
    assert retention.prune(layout, LAST)["freed_bytes"] == freed
    assert (layout.root / "elsewhere").is_file()


def test_the_source_of_a_fork_stays_from_its_plan_on_until_it_is_let_go(layout: Layout) -> None:
    claim(layout, "r", 10, 20)
    claim(layout, "f", source=source(layout, "r", 10))
    assert deleted(retention.prune(layout, LAST)) == []
    attempt(layout, "f", 1, None, ended=True)
    assert deleted(retention.prune(layout, LAST)) == []
    holds.release(layout, {"fork": "f"})
    assert deleted(retention.prune(layout, LAST)) == [10]


def test_what_a_live_attempt_continues_from_stays(layout: Layout) -> None:
    claim(layout, "r", 10, 20, 30)
    attempt(layout, "r", 1, None, ended=True)
    attempt(layout, "r", 2, "runs/r/checkpoints/step_10", ended=False)
    assert deleted(retention.prune(layout, LAST)) == [20]


def test_a_live_run_whose_trainer_thins_out_itself_is_left_to_it(layout: Layout) -> None:
    config = {"max_steps": 100, "model": {"name": "a/b"}, "data": {"name": "datasets/d"}, "ckpt": {"keep_last": 5}}
    claim(layout, "r", 10, 20, 30)
    plan = layout.records("r") / "plan.json"
    written = json.loads(plan.read_text())
    written["trainer"]["kind"], written["config"] = "tiny", config
    plan.write_text(json.dumps(written))
    attempt(layout, "r", 1, None, ended=False)
    assert deleted(retention.prune(layout, LAST)) == []
    runs.end(layout, {"run": "r", "attempt": 1, "end": {"state": "completed"}})
    assert deleted(retention.prune(layout, LAST)) == [10, 20]


def test_a_step_that_another_is_a_link_to_stays(layout: Layout) -> None:
    claim(layout, "r", 10, 20)
    shutil.rmtree(step(layout, "r", 20))
    step(layout, "r", 20).symlink_to("step_10")
    retention.prune(layout, LAST)
    assert step(layout, "r", 10).is_dir()


def test_what_prepare_set_aside_goes_once_the_run_has_come_further(layout: Layout) -> None:
    claim(layout, "r", 10)
    attempt(layout, "r", 1, "runs/r/checkpoints/step_1", ended=True)
    aside = layout.records("r") / "torn/1/checkpoints/step_5"
    write_tiny(aside, 5)
    (item,) = retention.prune(layout, LAST)["runs"][0]["deleted"]
    assert (item["path"], item["done"]) == (".slipway/runs/r/torn/1", True)
    assert not aside.exists()


def test_a_run_that_is_not_there_is_named(layout: Layout) -> None:
    with pytest.raises(NotThereError, match="no run 'x'"):
        retention.prune(layout, {"runs": ["x"], **LAST})


CASES = st.lists(
    st.tuples(
        st.sampled_from(["complete", "complete", "incomplete", "unknown"]),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
)
POLICIES = st.builds(Policy, st.none() | st.integers(1, 4), st.none() | st.integers(1, 5))


@given(CASES, POLICIES)
@settings(max_examples=200, deadline=None)
def test_whatever_is_pruned_the_newest_complete_and_all_that_is_needed_stay(cases: list[Any], policy: Policy) -> None:
    found = [
        {"path": f"s{n}", "step": n, "verdict": v, "why": "", "resumable": r} for n, (v, r, _, _) in enumerate(cases)
    ]
    needed = {f"s{n}": "held" for n, (_, _, held, _) in enumerate(cases) if held}
    young = frozenset(f"s{n}" for n, case in enumerate(cases) if case[3])
    decided = fates(found, policy, needed, young)
    gone = {fate.checkpoint["path"] for fate in decided if fate.goes}
    complete = [c for c in found if c["verdict"] == "complete"]
    resumable = [c for c in complete if c["resumable"]]
    assert [fate.checkpoint for fate in decided] == found
    assert not gone & (needed.keys() | young | {c["path"] for c in found if c["verdict"] == "unknown"})
    for kind in (complete, resumable):
        assert not kind or kind[-1]["path"] not in gone
    assert all(c["step"] < complete[-1]["step"] for c in found if c["path"] in gone)
    assert not {c["path"] for c in resumable[len(resumable) - (policy.keep_last or 0) :]} & gone
    assert policy.says_something or not gone


@given(st.lists(st.integers(1, 40), unique=True, max_size=5), st.data(), POLICIES)
@settings(max_examples=15, deadline=None)
def test_on_a_volume_every_run_keeps_its_newest_complete_step_and_all_held_ones(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], data: st.DataObject, policy: Policy
) -> None:
    layout = Layout(tmp_path_factory.mktemp("volume"))
    claim(layout, "p", *numbers)
    held = data.draw(st.sets(st.sampled_from(numbers))) if numbers else set()
    for number in held:
        claim(layout, f"f{number}")
        hold(layout, f"f{number}", "p", number)
    retention.prune(layout, {**vars(policy), "grace_seconds": 0})
    left = {c.step for c in find(layout.run("p")).checkpoints if c.complete} if numbers else set()
    assert held | set(sorted(numbers)[-1:]) <= left
    assert all(judge(layout.hold(f"f{n}") / f"step_{n}").complete for n in held)


SLOWLY = "import os, time; remove = os.unlink; os.unlink = lambda *a, **k: (time.sleep(0.01), remove(*a, **k)); "
PRUNE = 'from tasks.pod import program; program.main(["", "retention.prune", \'{"keep_last": 1, "grace_seconds": 0}\'])'


def start(layout: Layout, disk: str = "") -> "subprocess.Popen[bytes]":
    env = {**os.environ, "SLIPWAY_VOLUME": str(layout.root)}
    return subprocess.Popen([sys.executable, "-c", disk + PRUNE], cwd=REPOSITORY, env=env, stdout=subprocess.PIPE)


def test_killed_at_any_moment_the_next_one_finishes_the_work(layout: Layout) -> None:
    chance, kills = random.Random(7), 0
    claim(layout, "r", *range(1, 60))
    for number in range(1, 50):
        for extra in range(8):
            (step(layout, "r", number) / f"extra-{extra}").write_bytes(b"x" * 100)
    claim(layout, "f")
    hold(layout, "f", "r", 3)
    while len(steps(layout, "r")) > 2 and kills < 6:
        before, process = len(steps(layout, "r")), start(layout, SLOWLY)
        while process.poll() is None and len(list((layout.run("r") / "checkpoints").iterdir())) == before:
            time.sleep(0.001)
        time.sleep(chance.random() * 0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        there = find(layout.run("r")).checkpoints
        assert all(c.complete for c in there)  # nothing half deleted is where a trainer looks
        assert {3, 59} <= {c.step for c in there}
    assert kills > 1
    for path in trash.leftovers(layout)[:1]:
        path.chmod(0o555)
    retention.prune(layout, LAST)
    assert steps(layout, "r") == [3, 59]
    assert not list(layout.trash.iterdir())


def test_two_at_once_do_the_work_of_one(layout: Layout) -> None:
    claim(layout, "r", *range(1, 80))
    both = [start(layout), start(layout)]
    answers = [process.communicate()[0] for process in both]
    assert all(b'"ok"' in answer for answer in answers), answers
    assert steps(layout, "r") == [79]
    assert not list(layout.trash.iterdir())


def test_beside_holds_that_are_being_made_no_fork_is_left_with_half_a_source(layout: Layout) -> None:
    claim(layout, "r", *range(1, 31))

    def ask(number: int) -> bool:
        try:
            hold(layout, f"f{number}", "r", number)
        except Exception as error:
            assert type(error).__name__ in ("ChangedError", "NotThereError", "FileNotFoundError"), error
            return False
        return True

    for number in range(1, 31):
        claim(layout, f"f{number}")
    with ThreadPoolExecutor(3) as pool:
        pruned = pool.submit(retention.prune, layout, LAST)
        made = list(pool.map(ask, range(30, 0, -1)))
        pruned.result()
    for number, was in zip(range(30, 0, -1), made, strict=True):
        held = layout.hold(f"f{number}") / f"step_{number}"
        assert held.is_dir() == was
        assert not was or judge(held).complete


def test_a_run_that_is_a_link_is_left_alone_and_the_others_are_pruned(layout: Layout, tmp_path: Path) -> None:
    for run in ("linked", "s"):
        claim(layout, run, 10, 20)
    home = layout.run("linked")
    home.rename(tmp_path / "away")
    home.symlink_to(tmp_path / "away")
    claim(layout, "steps")
    layout.run("steps").mkdir()
    (layout.run("steps") / "checkpoints").symlink_to(layout.run("s") / "checkpoints")

    answer = retention.prune(layout, LAST)

    assert (deleted(answer), steps(layout, "s")) == ([10], [20])
    assert len(list((tmp_path / "away/checkpoints").iterdir())) == 2
    kept = {run["run"]: [item["path"] for item in run["kept"]] for run in answer["runs"]}
    assert kept["linked"] == ["runs/linked"] and kept["steps"] == ["runs/steps/checkpoints"]
    with pytest.raises(BadInputError, match="runs/linked is a link"):
        retention.prune(layout, {**LAST, "runs": ["linked"]})
