"""A sweep as a page: Markdown for the Prefect UI, and one self-contained HTML file."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from blocks.clusters.port import Cluster
from tasks.reports.curves import data_uri
from tasks.reports.sweep_board import Board, lineage
from tasks.reports.sweep_pictures import MOST_LINES, Curves, draw_parallel, draw_slices, draw_trials
from tasks.sweeps.records import SweepRecord

_TEMPLATES = Path(__file__).parent
_AT_ONCE = 200
_SHOWN = 50


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
    text = f"### Sweep `{board.record.sweep}`\n\n{_sentence(board.conclusion)}\n\n{_facts(board)}"
    return f"{text}\n\n{_table(board)}"


def report_page(board: Board, curves: Curves) -> str:
    """The same with pictures and the lineage, once it is over."""
    text = board_page(board)
    for title, svg in (
        ("Curves", draw_trials(board, curves)),
        ("What mattered", draw_parallel(board)),
        ("Axis by axis", draw_slices(board)),
    ):
        text += f"\n\n### {title}\n\n![{title}]({data_uri(svg)})"
    if board.forks:
        text += f"\n\n### Lineage\n\n```text\n{tree(board)}\n```"
    if board.best:
        text += (
            f'\n\nTo train the best on, run the deployment **fork** with `run = "{board.best.run}"`, or on the command '
            f"line `slipway fork {board.record.sweep} --best --volume {board.record.volume}`."
        )
    return text


def tree(board: Board) -> str:
    """The forks as lines."""
    metric = board.record.request.search.metric
    lines = []
    for depth, row in lineage(board):
        come = f"from step {row.parent_step}: {row.reason}" if row.parent else ""
        value = f"{metric} {row.value:.4g}" if row.value is not None else row.state
        lines.append(
            f"{'   ' * (depth - 1)}{'└─ ' if depth else ''}{row.run}  step {row.step}, {value}  {come}".rstrip()
        )
    return "\n".join(lines)


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
        curves=_drawn(draw_trials(board, curves)),
        parallel=_drawn(draw_parallel(board)),
        slices=_drawn(draw_slices(board)),
        tree=tree(board) if board.forks else "",
        most=MOST_LINES,
        metric=search.metric,
    )


def facts(board: Board) -> dict[str, str]:
    """What people ask first."""
    search, inputs = board.record.request.search, board.record.inputs
    weights = [f"{i.weights.repo}@{i.weights.commit}" if i.weights.repo else i.weights.path for i in inputs]
    return {
        "method": f"{search.method}, seed {search.seed}",
        "metric": f"{search.metric}, {search.direction}d, the {search.take} one of each run",
        "trials": f"{board.state.trials} of {search.planned} begun, {search.limits.parallel} at once",
        "time": f"{board.hours * 60:.1f} minutes of training in all, {board.gpu_hours:.2f} GPU hours",
        "weights": ", ".join(dict.fromkeys(weights)),
        "data": ", ".join(dict.fromkeys(i.dataset.path for i in inputs if i.dataset)),
        "volume": board.record.volume,
    }


def _facts(board: Board) -> str:
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts(board).items() if value)
    return f"| | |\n|---|---|\n{rows}"


def _table(board: Board) -> str:
    rows = board.table(_SHOWN)
    if not rows:
        return ""
    text = f"| {' | '.join(rows[0])} |\n|{'---|' * len(rows[0])}\n"
    text += "\n".join(f"| {' | '.join(str(cell).replace('|', '/') for cell in row.values())} |" for row in rows)
    more = len(board.rows) - len(rows)
    return text + (f"\n\n… and {more} more." if more > 0 else "")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _drawn(svg: str) -> Markup:
    return Markup(svg)  # noqa: S704 - drawn by us, labels escaped
