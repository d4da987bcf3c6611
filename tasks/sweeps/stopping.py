"""When a trial that trains, or the whole sweep, is not worth going on with: the rules of `[stop]`. Pure."""

from collections.abc import Mapping

from tasks.sweeps.log import Closing, Entry, Node, State, Stop
from tasks.sweeps.spec import Search

_LOSSES_IN_A_ROW = 3
"""One loss that is NaN may be a step that the trainer skips."""


def close(search: Search, state: State) -> Closing | None:
    """The end of a sweep that has found what it looked for, or finds nothing better any more."""
    stop, best = search.stop, state.best
    if best is None or best.value is None:
        return None
    if stop.target is not None and search.sign * best.value <= search.sign * stop.target:
        reached = f"{search.metric} {best.value:.4g} of {best.start.run} reaches the target, {stop.target:g}"
        return Closing(reason=reached, stop=True)
    if stop.patience and state.in_vain >= stop.patience:
        by = f" by {stop.min_delta:g}" if stop.min_delta else ""
        return Closing(reason=f"{state.in_vain} trials in a row did not better the best{by}")
    return None


def stops(
    search: Search, state: State, diverged: Mapping[str, str], steps: Mapping[str, Mapping[int, float]]
) -> list[Entry]:
    """The runs that are to be stopped.

    Args:
        diverged: run → what is not finite any more, in words.
        steps: run → its values at the steps at which the median rule compares, as far as it has come.
    """
    found: list[Entry] = []
    for run, what in diverged.items():
        if search.stop.diverged and _trains(state, run):
            found.append(Stop(run=run, cause="diverged", reason=what))
    stopped = {entry.run for entry in found if isinstance(entry, Stop)}
    for run, values in steps.items():
        if values and run not in stopped and _trains(state, run):
            step = max(values)
            median = state.median(step, search.stop.median_trials)
            if median is not None and search.sign * values[step] > search.sign * median:
                worse = f"at step {step} its {search.metric} was {values[step]:.4g}, and the median {median:.4g}"
                found.append(Stop(run=run, cause="median", reason=worse))
    return found


def said(metric: str, not_finite: Mapping[str, int], step: int) -> str:
    """What of a run is not finite any more, in words; "" if all that counts is.

    Args:
        not_finite: of its metrics, how many values in a row are NaN or infinite.
    """
    for name, least in ((metric, 1), ("loss", _LOSSES_IN_A_ROW)):
        if not_finite.get(name, 0) >= least:
            return f"its {name} is NaN or infinite at step {step}"
    return ""


def describe(search: Search) -> str:
    """The rules that were asked for, in words."""
    stop, found = search.stop, []
    if stop.target is not None:
        found.append(f"over once {search.metric} is {stop.target:g}")
    if stop.patience:
        by = f" by {stop.min_delta:g}" if stop.min_delta else ""
        found.append(f"nothing new after {stop.patience} trials in a row that do not better the best{by}")
    if stop.median_after:
        found.append(
            f"each {stop.median_after} steps, what is worse than the median of {stop.median_trials} is stopped"
        )
    if not stop.diverged:
        found.append("what diverges trains on")
    return "; ".join(found)


def compared_at(search: Search, newest: int) -> range:
    """The steps up to the newest one at which the median rule compares."""
    every = search.stop.median_after
    return range(every, newest + 1, every) if every else range(0)


def _trains(state: State, run: str) -> bool:
    node: Node | None = state.nodes.get(run)
    return node is not None and node.end is None and node.stop is None and node.replaced_by is None
