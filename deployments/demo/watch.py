"""Watches the demo's flow run from outside, as a person would: its state, its log, and progress on the volume."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.client.schemas.objects import State
from prefect.client.schemas.sorting import LogSort
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from blocks.clusters.errors import NotFoundError, ProgramError
from blocks.clusters.port import Cluster
from blocks.clusters.size import format_size

_OURS = ("prefect.flow_runs", "prefect.task_runs")
_ENGINE = re.compile(r"[Dd]eployment (pull )?step|Finished in state|Beginning flow run|View at|^plan: ready")
_PAGE = 200
_TICK_SECONDS = 0.5


@dataclass
class Bar:
    task: TaskID
    shown: str = ""


class Watch:
    """Shows what happens until the flow run is over.

    Args:
        say: prints a line; used for what a bar would show where the output is no terminal.
    """

    def __init__(self, client: SyncPrefectClient, cluster: Cluster, volume: str, console: Console) -> None:
        self._client, self._cluster, self._volume, self._console = client, cluster, volume, console
        self._bars: dict[str, Bar] = {}
        self._seen = 0
        columns = (TextColumn("{task.description:<28}"), BarColumn(), TextColumn("{task.fields[note]}"))
        self._progress = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)

    def follow(self, flow_run: UUID, runs: list[str], elapsed: Callable[[], float]) -> State:
        """Return the final state.

        Args:
            runs: ids of the runs that the flow makes.
            elapsed: seconds since the demo began, shown beside each line.
        """
        with self._progress:
            while True:
                state = self._client.read_flow_run(flow_run).state
                self._look(runs)
                for line in self._log(flow_run):
                    self._console.print(f"[dim]{elapsed():6.1f} s[/dim]  {line}", highlight=False, soft_wrap=True)
                if state is not None and state.is_final():
                    return state
                time.sleep(_TICK_SECONDS)

    def _log(self, flow_run: UUID) -> list[str]:
        rows = self._client.read_logs(
            LogFilter(flow_run_id=LogFilterFlowRunId(any_=[flow_run])),
            limit=_PAGE,
            offset=self._seen,
            sort=LogSort.TIMESTAMP_ASC,
        )
        self._seen += len(rows)
        return [row.message for row in rows if row.name in _OURS and not _ENGINE.search(row.message)]

    def _look(self, runs: list[str]) -> None:
        try:
            staging = self._cluster.call(self._volume, "staging.progress", {"identities": []})
            known = self._cluster.call(self._volume, "runs.list", {})["runs"]
        except (NotFoundError, ProgramError):
            return  # the volume comes later
        for name, note in staging.items():
            total = note.get("bytes_total") or 0
            if total:
                self._show(f"staging {name}", note["bytes_done"], total, f"{format_size(note['bytes_done'])}")
        for run in known:
            if run["run"] in runs and run["metrics"] and run["plan"]["max_steps"]:
                step, last, loss = run["metrics"]["step"], run["plan"]["max_steps"], run["metrics"].get("loss")
                note = f"step {step} of {last}" + (f", loss {loss:.3f}" if loss is not None else "")
                self._show(f"training {run['run']}", step, last, note)

    def _show(self, what: str, done: float, total: float, note: str) -> None:
        if what not in self._bars:
            self._bars[what] = Bar(self._progress.add_task(what, total=total, note=note))
        bar = self._bars[what]
        bar.shown = note
        self._progress.update(bar.task, completed=done, total=total, note=note)
