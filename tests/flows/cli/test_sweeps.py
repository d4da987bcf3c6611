"""`slipway sweep`, `slipway sweeps` and `slipway fork SWEEP --best`."""

import csv
import io
import re

import pytest

from blocks.settings import load_settings
from tasks.runs.ask import ask_run
from tasks.sweeps.ask import ask_sweep, read_sweep_file
from tasks.sweeps.claim import claim_sweep
from tasks.sweeps.drive import Drive
from tasks.sweeps.log import Start, read_entry
from tasks.sweeps.plan import make_sweep_plan
from tasks.sweeps.records import SweepRecord, read_sweep
from tests.flows.cli.conftest import Slipway

FILE = """
name = "NAME"
config = "finetune.toml"
method = "halving"
[axes]
"optim.lr" = { log_range = [0.001, 0.05] }
[halving]
min_steps = 2
factor = 2
rungs = 2
[limits]
parallel = 4
"""


def begun(bench: Slipway, name: str, *changes: tuple[str, str]) -> SweepRecord:
    """A sweep on the bench that is planned and written down, as the flow does."""
    text = FILE.replace("NAME", name)
    for change in changes:
        text = text.replace(*change)
    asked = read_sweep_file(bench.folder / bench.write(f"{name}.toml", text))
    settings = load_settings(bench.folder / "slipway.toml")
    base = ask_run(
        name, (bench.folder / "finetune.toml").read_text(), settings.trainer(), changes=asked.changes, volume="bench"
    )
    plan = make_sweep_plan(bench.cluster, settings.hub(), ask_sweep(name, asked.search, base))
    assert not plan.blocked
    resolved = [run.resolved for run in plan.runs if run.resolved]
    return claim_sweep(bench.cluster, plan, [(found.weights, found.dataset) for found in resolved])


@pytest.fixture(scope="module", name="bench")
def bench_of_its_own(furnished: Slipway, tmp_path_factory: pytest.TempPathFactory) -> Slipway:
    """The other tests' bench has no sweeps."""
    return furnished.copy(tmp_path_factory.mktemp("swept") / "bench")


@pytest.fixture(scope="module")
def swept(bench: Slipway) -> Slipway:
    """With a sweep `halved` of 4 trials that is over."""
    Drive(bench.cluster, begun(bench, "halved"), lambda drive: None).to_its_end()
    return bench


def test_trials_read_their_weights_where_they_are_told_to(bench: Slipway) -> None:
    bench.write("placed.toml", FILE.replace("NAME", "placed"))
    asked = bench("sweep", "placed.toml", "--plan", "-o", "json", "--weights", "hydrate").json
    assert asked["request"]["base"]["weights"]["placement"] == "hydrate"
    bench("sweep", "placed.toml", "--plan", "--weights", "node").refused(1, "has no node cache")


def test_the_plan_is_shown_and_nothing_is_launched(bench: Slipway) -> None:
    bench.write("plan.toml", FILE.replace("NAME", "planned"))
    answer = bench("sweep", "plan.toml", "--plan")
    assert answer.code == 0 and "planned-t004" in answer.err and "rungs at steps 2, 4" in answer.err
    assert "planned" not in bench("sweeps", "list").out
    shown = bench("sweep", "plan.toml", "--plan", "-o", "json").json
    assert [start["run"] for start in shown["first"]] == [f"planned-t00{n}" for n in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (("min_steps", "min_step"), 2, ("halving.min_step is unknown", "did you mean min_steps")),
        (('"optim.lr"', '"optim.lrr"'), 2, ("axis optim.lrr", "Did you mean optim.lr?")),
        (("0.001,", "-1,"), 2, ("axes.optim.lr", "begin above 0")),
        (('config = "finetune.toml"', 'config = "none.toml"'), 2, ("no config", "none.toml")),
        (('config = "finetune.toml"', ""), 2, ("names no config",)),
        (('"NAME"', '"Up"'), 2, ("sweep name 'Up'", "capital letters")),
    ],
)
def test_a_sweep_that_can_not_be_is_refused_in_one_line(
    bench: Slipway, change: tuple[str, str], code: int, words: tuple[str, ...]
) -> None:
    bench.write("refused.toml", FILE.replace(*change).replace("NAME", "refused"))
    bench("sweep", "refused.toml").refused(code, *words)


def test_sweeps_are_listed_and_shown(swept: Slipway) -> None:
    (listed,) = [row for row in swept("sweeps", "list", "-o", "json").json if row["sweep"] == "halved"]
    assert listed["trials"] == 4 and listed["best"].startswith("halved-t00")
    assert listed["best"] in swept("sweeps", "list").out

    shown = swept("sweeps", "show", "halved", "-o", "json").json
    assert [row["place"] for row in shown["runs"]] == list(range(1, len(shown["runs"]) + 1))
    values = [row["value"] for row in shown["runs"]]
    assert values == sorted(values) and shown["runs"][0]["run"] == listed["best"]
    assert "└─ halved-t00" in swept("sweeps", "show", "halved").out


def test_the_leaderboard_is_written_as_csv_and_as_a_page_that_loads_nothing(swept: Slipway) -> None:
    assert swept("sweeps", "show", "halved", "--csv", "board.csv", "--report", "report.html").code == 0
    rows = list(csv.DictReader(io.StringIO((swept.folder / "board.csv").read_text())))
    assert len(rows) >= 6 and {"place", "run", "value", "optim.lr", "parent"} <= rows[0].keys()
    page = (swept.folder / "report.html").read_text()
    assert page.count("<svg") == 3 and "halved-t001" in page
    assert "<script" not in page and not re.search(r'(src|href)="(?!#)', page)


def test_the_best_run_is_trained_on(swept: Slipway) -> None:
    best = swept("sweeps", "list", "-o", "json").json
    run = next(row["best"] for row in best if row["sweep"] == "halved")
    answer = swept("fork", "halved", "--best", "--max-steps", "9", "--name", "on", "--dry-run", "-o", "json")
    assert answer.json["request"]["fork_of"]["run"] == run
    swept("fork", "halvd", "--best").refused(1, "No volume", "Did you mean 'halved'")


def test_a_sweep_is_ended_from_the_command_line_and_whoever_drives_it_notices(bench: Slipway) -> None:
    slow = ('config = "finetune.toml"', 'config = "finetune.toml"\nset = { "pace.step_seconds" = 0.3 }')
    record = begun(bench, "ended", slow, ('"halving"', '"random"'), ("parallel = 4", "parallel = 1\ntrials = 30"))
    ended = []

    def notice(drive: Drive) -> None:
        if drive.state.nodes and not ended:
            ended.append(bench("sweeps", "stop", "ended"))

    Drive(bench.cluster, record, notice).to_its_end()

    assert ended[0].code == 0 and "is ended" in ended[0].err
    state = read_sweep(bench.cluster, "bench", "ended")[1]
    assert state.over is not None and state.over.reason == "stopped by hand" and len(state.nodes) < 30
    assert "over already" in bench("sweeps", "stop", "ended").err
    again = bench("sweeps", "stop", "ended", "-o", "json").json
    assert again == {"sweep": "ended", "volume": "bench", "stopped": False}


def test_two_that_drive_one_sweep_decide_as_one(bench: Slipway) -> None:
    record = begun(bench, "both", ('"halving"', '"random"'), ("parallel = 4", "parallel = 2\ntrials = 6"))
    others: list[Drive] = []

    def take_turns(drive: Drive) -> None:
        """Another one that drives the same sweep takes a turn between two of this one's."""
        if not others:
            others.append(Drive(bench.cluster, record, lambda drive: None))
        others[0].one_turn()

    Drive(bench.cluster, record, take_turns).to_its_end()

    turns = bench.cluster.call("bench", "sweeps.show", {"sweep": "both"})["turns"]
    starts = [read_entry(entry) for turn in turns for entry in turn if entry["kind"] == "start"]
    assert [start.run for start in starts if isinstance(start, Start)] == [f"both-t00{n}" for n in range(1, 7)]
    records = bench.cluster.call("bench", "runs.list", {})["runs"]
    assert [len(r["attempts"]) for r in records if r["run"].startswith("both-")] == [1] * 6
