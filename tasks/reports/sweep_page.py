"""A sweep as a page: Markdown for the Prefect UI, and one self-contained HTML file."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from blocks.clusters.port import Cluster
from tasks.reports.curves import data_uri
from tasks.reports.sweep_board import Board, Row, lineage
from tasks.reports.sweep_pictures import MOST_LINES, Curves, draw_parallel, draw_slices, draw_trials
from tasks.sweeps.plan import show_value
from tasks.sweeps.records import SweepRecord
from tasks.sweeps.stopping import describe

_TEMPLATES = Path(__file__).parent
_AT_ONCE = 200
_SHOWN = 50
_HOURS = 2
"""Less is said in minutes."""


def read_curves(cluster: Cluster, record: SweepRecord, runs: list[str]) -> Curves:
    """The metric of runs by step, a few looks for all of them.

    Args:
        runs: runs of the sweep; those that never trained have no curve.
    """
    trainer = record.request.base.adapter
    ask = {
        "offset": 0,
        "metrics": trainer.metrics,
        "format": trainer.checkpoint_format,
        "checkpoints": trainer.checkpoints,
    }
    metric = record.request.search.metric
    found = {}
    for first in range(0, len(runs), _AT_ONCE):
        some = runs[first : first + _AT_ONCE]
        seen = cluster.call(record.volume, "runs.observe", {"runs": dict.fromkeys(some, ask)})["runs"]
        for run in some:
            values = {m["step"]: m[metric] for m in seen[run]["metrics"] if isinstance(m.get(metric), int | float)}
            found[run] = sorted(values.items())
    return found


def drawn(board: Board) -> list[str]:
    """The runs whose curves are drawn."""
    return [row.run for row in board.rows][:MOST_LINES]


def board_page(board: Board) -> str:
    """The leaderboard while the sweep goes on."""
    return f"{_head(board)}\n\n{_table(board)}"


def _head(board: Board) -> str:
    return f"### Sweep `{board.record.sweep}`\n\n{_sentence(board.conclusion)}\n\n{_facts(board)}"


def report_page(board: Board, curves: Curves) -> str:
    """The same with pictures and the lineage, once it is over."""
    text = _head(board)
    pictures = draw_all(board, curves)
    titles = {"curves": "Curves", "parallel": "What mattered", "slices": "Axis by axis"}
    for name, svg in pictures.items():
        text += f"\n\n### {titles[name]}\n\n![{titles[name]}]({data_uri(svg)})"
    if board.forks:
        text += f"\n\n### Lineage\n\n{_list(board)}"
    text += f"\n\n### Leaderboard\n\n{_table(board)}"
    if board.best:
        text += (
            f'\n\nTo train the best on, run the deployment **fork** with `run = "{board.best.run}"`, or on the command '
            f"line `slipway fork {board.record.sweep} --best --volume {board.record.volume}`."
        )
    return text


def draw_all(board: Board, curves: Curves) -> dict[str, str]:
    """The pictures that there is something to see in, as SVG: curves, parallel (coordinates), slices."""
    found = {}
    if any(curves.values()):
        found["curves"] = draw_trials(board, curves)
    if sum(1 for row in board.rows if row.place) > 1:
        found |= {"parallel": draw_parallel(board), "slices": draw_slices(board)}
    return found


def tree(board: Board) -> str:
    """The forks as lines."""
    lines = [
        f"{'   ' * (depth - 1)}{'└─ ' if depth else ''}{row.run}  {'  '.join(_told(board, row))}"
        for depth, row in lineage(board)
    ]
    return "\n".join(lines)


def _list(board: Board) -> str:
    """The same as a list in a list, of which the lines are broken where a page is narrow."""
    return "\n".join(f"{'  ' * depth}- `{row.run}`: {', '.join(_told(board, row))}" for depth, row in lineage(board))


def _told(board: Board, row: Row) -> list[str]:
    value = f"{board.record.request.search.metric} {row.value:.4g}" if row.value is not None else row.state
    return [f"step {row.step}, {value}", *([f"from step {row.parent_step}: {row.reason}"] if row.parent else [])]


def render_sweep(board: Board, curves: Curves) -> str:
    """The report as one HTML file that loads nothing."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    search = board.record.request.search
    return environment.get_template("sweep.html.j2").render(
        board=board,
        facts=facts(board),
        conclusion=_sentence(board.conclusion),
        table=board.table(),
        pictures={name: _drawn(svg) for name, svg in draw_all(board, curves).items()},
        tree=tree(board) if board.forks else "",
        stages=bool(board.forks and len({row.step for row in board.rows if row.place}) > 1),
        most=MOST_LINES,
        metric=search.metric,
    )


def facts(board: Board) -> dict[str, str]:
    """What people ask first."""
    search, inputs = board.record.request.search, board.record.inputs
    weights = [
        f"{i.weights.repo}@{(i.weights.commit or '')[:12]}" if i.weights.repo else i.weights.path for i in inputs
    ]
    best = board.best
    values = ", ".join(f"{key} {show_value(value)}" for key, value in best.point.items()) if best else ""
    return {
        "best": f"{best.run}: {search.metric} {show_value(best.value)} at step {best.step}; {values}" if best else "",
        "method": f"{search.method}, seed {search.seed}",
        "metric": f"{search.metric}, {search.direction}d, the {search.take} one of each run",
        "trials": f"{board.state.trials} of {search.planned} begun, {search.limits.parallel} at once",
        "stop rules": describe(search),
        "time": f"{_long(board.hours)} of training in all, {board.gpu_hours:.2f} GPU hours",
        "weights": ", ".join(dict.fromkeys(weights)),
        "data": ", ".join(dict.fromkeys(i.dataset.path for i in inputs if i.dataset)),
        "volume": board.record.volume,
    }


def _long(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= _HOURS else f"{hours * 60:.1f} minutes"


def _facts(board: Board) -> str:
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts(board).items() if value)
    return f"| | |\n|---|---|\n{rows}"


def _table(board: Board) -> str:
    """The leaderboard; its runs without the sweep's name, since there is little room."""
    prefix = f"{board.record.sweep}-"
    rows = [
        {
            key: str(cell).replace(prefix, "") if key in ("run", "forked from", "why") else cell
            for key, cell in row.items()
        }
        for row in board.table(_SHOWN)
    ]
    if not rows:
        return ""
    text = f"| {' | '.join(rows[0])} |\n|{'---|' * len(rows[0])}\n"
    text += "\n".join(f"| {' | '.join(str(cell).replace('|', '/') for cell in row.values())} |" for row in rows)
    more = len(board.rows) - len(rows)
    text += f"\n\n… and {more} more." if more > 0 else ""
    return f"{text}\n\nThe name of each run begins with `{prefix}`."


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _drawn(svg: str) -> Markup:
    return Markup(svg)  # noqa: S704 - drawn by us, labels escaped
