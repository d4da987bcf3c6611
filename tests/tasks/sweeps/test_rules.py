"""What a sweep does next, without jobs: limits, failures, promotion, exploitation, and the same again after a kill."""

from collections import Counter
from itertools import pairwise

import pytest

from blocks.clusters.errors import SlipwayError
from tasks.sweeps.axes import Point
from tasks.sweeps.log import Closing, End, Interval, Over, Start, State, read_entry
from tests.tasks.sweeps.conftest import LR, search
from tests.tasks.sweeps.simulated import Simulation

METHODS = {
    "grid": {"axes": {"optim.lr": {"log_range": [0.001, 0.1], "points": 7}}},
    "random": {"limits": {"trials": 15, "parallel": 3}},
    "tpe": {
        "axes": {
            **LR,
            "batch": {"choices": [[1, 2], [3, 4]]},
            "size": {"int_range": [1, 9], "when": {"batch": [[1, 2]]}},
        },
        "limits": {"trials": 25, "parallel": 3},
    },
    "halving": {"limits": {"trials": 9, "parallel": 2}, "halving": {"min_steps": 2, "factor": 3, "rungs": 2}},
    "pbt": {"limits": {"parallel": 4}, "pbt": {"population": 4, "interval": 5, "intervals": 3}},
}


def score(point: Point, step: int) -> float | None:
    return abs(point["optim.lr"] - 0.01) + 1 / step


@pytest.mark.parametrize("method", METHODS)
def test_a_sweep_that_is_read_again_after_any_entry_goes_on_as_it_would_have(method: str) -> None:
    whole = Simulation(search(method, **METHODS[method]), score)
    whole.run()
    turns = [
        n for n in range(1, len(whole.log)) if isinstance(whole.log[n], End) and not isinstance(whole.log[n - 1], End)
    ]
    for cut in turns[::2]:
        again = Simulation(whole.search, score, [read_entry(e.model_dump(mode="json")) for e in whole.log[:cut]])
        for place, entry in enumerate(whole.log[cut:], cut):
            if isinstance(entry, End):
                again.apply(entry)
            elif len(again.log) == place:
                assert again.decide()
        assert again.log == whole.log, cut


@pytest.mark.parametrize("method", METHODS)
def test_never_more_at_once_than_allowed(method: str) -> None:
    simulation = Simulation(search(method, **METHODS[method]), score)
    simulation.run()
    live: set[str] = set()
    for entry in simulation.log:
        if isinstance(entry, Start):
            live.add(entry.run)
            if entry.replaces:
                live.discard(entry.replaces)
        elif isinstance(entry, End):
            live.discard(entry.run)
        assert len(live) <= simulation.search.limits.parallel


def test_tpe_comes_nearer_than_chance() -> None:
    axes = {"optim.lr": {"range": [0.0, 1.0]}}
    best = {}
    for method in ("random", "tpe"):
        how = search(method, axes, limits={"trials": 50, "parallel": 1}, seed=1)
        state = Simulation(how, lambda point, step: (point["optim.lr"] - 0.37) ** 2).run()
        last = [node.value or 0.0 for node in state.nodes.values()][25:]
        best[method] = sum(last) / len(last)
    assert best["tpe"] < best["random"] / 4


def test_more_is_better_where_it_is_asked_for() -> None:
    how = search("random", direction="maximize", limits={"trials": 10, "parallel": 2})
    state = Simulation(how, lambda point, step: point["optim.lr"]).run()
    ranked = [node.start.point["optim.lr"] for node in state.ranked(how.sign)]
    assert ranked == sorted(ranked, reverse=True)


def fails_above(point: Point, step: int) -> float | None:
    return None if point["optim.lr"] > 0.008 else point["optim.lr"]


def test_failed_trials_are_skipped_or_replaced() -> None:
    skipped = Simulation(search(limits={"trials": 12}, failures={"stop_after": 99}), fails_above).run()
    failed = sum(1 for node in skipped.nodes.values() if node.end and node.end.state == "failed")
    assert len(skipped.nodes) == 12 and 3 < failed < 12

    policy = {"policy": "replace", "replacements": 3, "stop_after": 99}
    replaced = Simulation(search(limits={"trials": 12}, failures=policy), fails_above).run()
    assert len(replaced.nodes) == 15


def test_a_failed_point_of_a_grid_is_tried_again() -> None:
    how = search("grid", {"optim.lr": {"choices": [0.001, 0.1, 0.002]}}, failures={"policy": "replace"})
    simulation = Simulation(how, fails_above)
    simulation.run()
    assert [s.point["optim.lr"] for s in simulation.starts()] == [0.001, 0.1, 0.002, 0.1, 0.1, 0.1]


def test_a_sweep_whose_trials_all_fail_stops_begins_nothing_any_more() -> None:
    simulation = Simulation(search(limits={"trials": 50}, failures={"stop_after": 4}), lambda point, step: None)
    state = simulation.run()
    assert len(state.nodes) <= 4 + 1 and state.over == Over(reason="4 trials have failed")


def test_closing_stops_what_runs_and_ends_the_sweep() -> None:
    simulation = Simulation(search(limits={"trials": 9, "parallel": 3}), score)
    simulation.decide()
    simulation.apply(Closing(reason="enough", stop=True))
    assert [node.start.run for node in simulation.state.to_stop] == ["s-t001", "s-t002", "s-t003"]
    assert simulation.run().over == Over(reason="enough")


def test_halving_promotes_thirds_and_trains_only_what_is_left() -> None:
    how = search("halving", limits={"parallel": 3}, halving={"min_steps": 2, "factor": 3, "rungs": 3})
    simulation = Simulation(how, score)
    state = simulation.run()
    assert how.planned == 27
    rungs = Counter(start.stage for start in simulation.starts())
    assert rungs[0] == 27 and 9 <= rungs[1] <= 14 and rungs[2] >= 3
    for start in simulation.starts():
        assert start.max_steps == 2 * 3**start.stage
        if start.stage:
            parent = start.run.rsplit("-r", 1)[0] + (f"-r{start.stage - 1}" if start.stage > 1 else "")
            assert start.origin is not None and (start.origin.run, start.origin.step) == (
                parent,
                2 * 3 ** (start.stage - 1),
            )
    best = state.ranked(1)[0]
    assert best.start.stage == 2


def test_pbt_moves_the_worst_to_the_best_and_leaves_the_best_alone() -> None:
    how = search("pbt", LR, limits={"parallel": 4}, pbt={"population": 4, "interval": 5, "intervals": 3})
    simulation = Simulation(how, score)
    simulation.decide()
    for step, run in ((5, "s-t001"), (6, "s-t002"), (4, "s-t003"), (5, "s-t004")):
        simulation.steps[run] = step
    assert simulation.decide() == [], "one has not come to the interval yet"
    simulation.steps["s-t003"] = 5

    interval, fork = simulation.decide()
    assert isinstance(interval, Interval) and isinstance(fork, Start)
    ranked = sorted(interval.scores, key=lambda trial: interval.scores[trial] or 0)
    assert fork.origin is not None and fork.trial == ranked[-1]
    assert fork.origin.run == f"s-t{ranked[0]:03d}" and fork.replaces == f"s-t{ranked[-1]:03d}"
    assert [node.start.run for node in simulation.state.to_stop] == [fork.replaces]
    parent = simulation.state.nodes[fork.origin.run].start.point["optim.lr"]
    assert fork.point["optim.lr"] in (pytest.approx(parent * 0.8), pytest.approx(parent * 1.25), 0.0005, 0.05)


def test_a_member_of_a_population_that_failed_goes_on_from_one_of_the_best() -> None:
    how = search("pbt", LR, limits={"parallel": 4}, pbt={"population": 4, "interval": 5, "intervals": 3})
    simulation = Simulation(how, score)
    simulation.decide()
    for run in ("s-t001", "s-t003", "s-t004"):
        simulation.steps[run] = 7
    simulation.apply(End(run="s-t002", state="failed", cause="exit"))
    forks = {e.trial: e for e in simulation.decide() if isinstance(e, Start)}
    assert forks[2].replaces is None and forks[2].origin is not None
    assert simulation.run().over is not None


def test_seeds_differ() -> None:
    drawn = []
    for seed in (0, 1):
        simulation = Simulation(search(seed=seed, limits={"trials": 5, "parallel": 5}), score)
        simulation.decide()
        drawn += [start.point["optim.lr"] for start in simulation.starts()]
    assert len(set(drawn)) == 10
    assert all(a != b for a, b in pairwise(drawn))


@pytest.mark.parametrize(
    "entry",
    [
        End(run="s-t001", state="completed"),
        Start(run="s-t001-g1", trial=1, stage=1, point={}, replaces="s-t001"),
    ],
)
def test_a_log_that_has_lost_a_start_is_damaged(entry: End | Start) -> None:
    with pytest.raises(SlipwayError, match=r"speaks of run 's-t001'"):
        State().apply(entry)
