"""The rules of sweeps without jobs: runs that end when they are told to, and score what a function says."""

from collections.abc import Callable

from tasks.sweeps.axes import Point
from tasks.sweeps.log import End, Entry, Origin, Start, State
from tasks.sweeps.proposals import proposals
from tasks.sweeps.rules import moves
from tasks.sweeps.spec import Search
from tasks.sweeps.stopping import compared_at

Score = Callable[[Point, int], float | None]


class Simulation:
    """A sweep called `s`.

    Args:
        score: the metric of a point at a step; None where such a run fails.
    """

    def __init__(self, search: Search, score: Score, log: list[Entry] | None = None) -> None:
        self.search, self._score = search, score
        self.state, self.log = State(search.sign, search.stop.min_delta), []
        self._proposals = proposals(search)
        self.steps: dict[str, int] = {}
        self.unsound: dict[str, str] = {}
        for entry in log or []:
            self.apply(entry)

    def apply(self, entry: Entry) -> None:
        self.state.apply(entry)
        self._proposals.told(entry)
        self.log.append(entry)
        if isinstance(entry, End) and entry.state != "stopped":
            self.steps[entry.run] = entry.step

    def decide(self) -> list[Entry]:
        """Write down all that follows from what is so."""
        done: list[Entry] = []
        while found := moves("s", self.search, self.state, self._proposals, self):
            for entry in found:
                self.apply(entry)
            done += found
        return done

    def finish(self, run: str, max_steps: int = 10) -> None:
        start = self.state.nodes[run].start
        step = start.max_steps or max_steps
        value = self._score(start.point, step)
        if (stop := self.state.nodes[run].stop) is not None:
            self.apply(End(run=run, state="stopped", cause=stop.cause, reason=stop.reason, at=self.compared()[run]))
            return
        newest = Origin(run=run, path=f"runs/{run}/step_{step}", step=step, fingerprint="f")
        state = "failed" if value is None else "completed"
        self.steps[run] = step
        self.apply(End(run=run, state=state, value=value, step=step, newest=newest, at=self.compared()[run]))

    def run(self) -> State:
        """To the end: the oldest run is always the first to be over."""
        self.decide()
        while self.state.over is None:
            for node in self.state.to_stop:
                self.apply(End(run=node.start.run, state="stopped"))
            if self.state.live:
                self.finish(self.state.live[0].start.run)
            self.decide()
        return self.state

    def starts(self) -> list[Start]:
        return [entry for entry in self.log if isinstance(entry, Start)]

    def step(self, run: str) -> int:
        return self.steps.get(run, 0)

    def score(self, run: str, step: int) -> float | None:
        return self._score(self.state.nodes[run].start.point, step)

    def diverged(self) -> dict[str, str]:
        return self.unsound

    def compared(self) -> dict[str, dict[int, float]]:
        found = {}
        for run, node in self.state.nodes.items():
            steps = compared_at(self.search, self.step(run))
            values = {step: self._score(node.start.point, step) for step in steps}
            found[run] = {step: value for step, value in values.items() if value is not None}
        return found

    def newest(self, run: str, below: int) -> Origin | None:
        step = min(self.step(run), below - 1)
        return Origin(run=run, path=f"runs/{run}/step_{step}", step=step, fingerprint="f") if step else None
