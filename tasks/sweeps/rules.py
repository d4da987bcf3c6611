"""What a sweep does next, by its method: begin a trial, fork one that did well, end. Pure: the log, and what can be
seen of the runs, go in; entries for the log come out."""

from collections.abc import Mapping
from typing import Protocol

from tasks.sweeps.log import Closing, Entry, Interval, Node, Origin, Over, Start, State
from tasks.sweeps.proposals import Proposals, mutate, seeded
from tasks.sweeps.spec import Search
from tasks.sweeps.stopping import close, stops

ALL_OVER = "all trials are over"


class Seen(Protocol):
    """What was seen of runs; also of those that are over."""

    def step(self, run: str) -> int:
        """The newest one trained."""
        ...

    def score(self, run: str, step: int) -> float | None:
        """The metric at a step, or its newest value before."""
        ...

    def newest(self, run: str, below: int) -> Origin | None:
        """The newest completed checkpoint that training can go on from, of a step below `below`."""
        ...

    def diverged(self) -> Mapping[str, str]:
        """Run → what of it is NaN or infinite, in words, for those of which something is."""
        ...

    def compared(self) -> Mapping[str, Mapping[int, float]]:
        """Run → its values at the steps at which the median rule compares, for those that train."""
        ...


def moves(sweep: str, search: Search, state: State, proposals: Proposals, seen: Seen) -> list[Entry]:
    """What to write down next; empty while there is nothing to do but wait.

    Asked again once that is applied to `state` and told to `proposals`. Entries that come together belong together.
    """
    if state.over is not None:
        return []
    if unworthy := stops(search, state, seen.diverged(), seen.compared()):
        return unworthy
    if state.closing is None:
        if (closing := close(search, state)) is not None:
            return [closing]
        if state.failed >= search.failures.stop_after:
            return [Closing(reason=f"{state.failed} trials have failed")]
        found: list[Entry] = []
        match search.method:
            case "pbt":
                found = _population(sweep, search, state, proposals, seen)
            case "halving":
                found = _promotion(sweep, search, state) or _fresh(sweep, search, state, proposals)
            case _:
                found = _fresh(sweep, search, state, proposals)
        if found:
            return found
    if state.live:
        return []
    return [Over(reason=state.closing.reason if state.closing else ALL_OVER)]


def run_name(sweep: str, trial: int, stage: int = 0, mark: str = "r") -> str:
    """What a trial's run is called: SWEEP-t001, and after it was forked SWEEP-t001-r1."""
    return f"{sweep}-t{trial:03d}{f'-{mark}{stage}' if stage else ''}"


def _room(search: Search, state: State) -> bool:
    return len(state.live) < search.limits.parallel


def _fresh(sweep: str, search: Search, state: State, proposals: Proposals) -> list[Entry]:
    """The next trial, if there is room for it."""
    if not _room(search, state) or state.trials >= _target(search, state):
        return []
    trial = state.trials + 1
    point = proposals.next(trial)
    if point is None:
        return []
    max_steps = search.halving.steps(0) if search.method == "halving" else None
    return [Start(run=run_name(sweep, trial), trial=trial, point=point, max_steps=max_steps, why="a new trial")]


def _target(search: Search, state: State) -> int:
    """How many trials there are to be, those in place of failed ones included."""
    replaced = 0
    if search.failures.policy == "replace":
        replaced = min(state.failed_trials, search.failures.replacements)
    return search.planned + replaced


def _promotion(sweep: str, search: Search, state: State) -> list[Entry]:
    """The best run of a rung that is among the best of those that came to its end, and was not forked yet.

    Asynchronous successive halving (arXiv 1810.05934): nobody waits for a rung to be full; the highest rung first.
    """
    if not _room(search, state):
        return []
    halving = search.halving
    for rung in range(halving.rungs - 2, -1, -1):
        done = state.rung(rung)
        for place, run in enumerate(done[: len(done) // halving.factor]):
            node = state.nodes[run]
            end = node.end
            if end is None or end.newest is None or _is_forked(state, node):
                continue
            steps = halving.steps(rung + 1)
            return [
                Start(
                    run=run_name(sweep, node.start.trial, rung + 1),
                    trial=node.start.trial,
                    stage=rung + 1,
                    point=node.start.point,
                    max_steps=steps,
                    origin=end.newest,
                    why=f"place {place + 1} of the {len(done)} that came to step {halving.steps(rung)}",
                )
            ]
    return []


def _is_forked(state: State, node: Node) -> bool:
    return any(other.start.stage > node.start.stage for other in state.of_trial(node.start.trial))


def _population(sweep: str, search: Search, state: State, proposals: Proposals, seen: Seen) -> list[Entry]:
    """The population to begin with, then one comparison after the other."""
    pbt = search.pbt
    if state.trials < pbt.population:
        trial = state.trials + 1
        point = proposals.next(trial)
        assert point is not None
        why = "one of the population"
        return [Start(run=run_name(sweep, trial), trial=trial, point=point, max_steps=pbt.max_steps, why=why)]
    number = len(state.intervals) + 1
    if number >= pbt.intervals:
        return []
    return _compare(sweep, search, state, number, seen)


def _compare(sweep: str, search: Search, state: State, number: int, seen: Seen) -> list[Entry]:
    """Compare the population at an interval, once all of it that still trains has come there."""
    pbt, at = search.pbt, number * search.pbt.interval
    population = state.newest()
    scores: dict[int, float | None] = {}
    for node in population:
        if node.start.origin is not None and node.start.origin.step >= at:
            continue  # forked from a checkpoint beyond this interval: it stands as it is
        run, over = node.start.run, node.end
        if over is None and seen.step(run) < at:
            return []
        failed = over is not None and over.state != "completed"
        scores[node.start.trial] = None if failed else seen.score(run, at)
    by_trial = {node.start.trial: node for node in population}
    good = sorted((t for t in scores if scores[t] is not None), key=lambda t: (search.sign * (scores[t] or 0), t))
    bad = sorted(t for t in scores if scores[t] is None)
    last = (good + bad)[::-1][: pbt.edge]
    found: list[Entry] = [Interval(number=number, scores=scores)]
    for trial in sorted({*last, *bad}):
        best = [t for t in good[: pbt.edge] if t != trial and t not in last]
        if not best:
            continue
        parent = by_trial[seeded(search, "exploit", number, trial).choice(best)]
        origin = seen.newest(parent.start.run, pbt.max_steps)
        if origin is None:
            continue  # nothing of it is complete yet
        mine = by_trial[trial]
        found.append(
            Start(
                run=run_name(sweep, trial, number, "g"),
                trial=trial,
                stage=number,
                point=mutate(search, parent.start.point, number, trial),
                max_steps=pbt.max_steps,
                origin=origin,
                replaces=None if mine.end else mine.start.run,
                why=f"at step {at} it was {_words(scores[trial])}, and {parent.start.run} "
                f"{_words(scores[parent.start.trial])}",
            )
        )
    return found


def _words(score: float | None) -> str:
    return "without a value" if score is None else f"{score:.4g}"
