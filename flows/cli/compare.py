"""`slipway runs compare`: two runs side by side. Needs no Prefect."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.command import NamedCommand
from flows.cli.options import ClusterName, OfVolume, Output, OutputFormat, Owner
from flows.cli.place import connect, volume_of
from flows.cli.show import number, say, show_json, show_table

if TYPE_CHECKING:
    from tasks.reports.comparison import Comparison


def add_to(app: typer.Typer) -> None:
    app.command(cls=NamedCommand)(compare)


def compare(
    first: Annotated[str, typer.Argument(metavar="RUN", help="A run.")],
    second: Annotated[str, typer.Argument(metavar="OTHER", help="The run to compare it with.")],
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page that needs nothing else.")] = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the curves as a picture.")] = None,
    volume: OfVolume = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Show what two runs were asked for otherwise, beside their losses."""
    from tasks.reports.comparison import compare as compare_stories
    from tasks.reports.comparison import comparison_page, comparison_picture
    from tasks.reports.story import tell

    place = connect(cluster, owner)
    a, b = (tell(place, volume_of(place, run, volume), run) for run in (first, second))
    comparison = compare_stories(a, b)
    if html:
        html.write_text(comparison_page(comparison), encoding="utf-8")
        say(f"The page is in {html}")
    if png:
        png.write_bytes(comparison_picture(comparison))
        say(f"The curves are in {png}")
    if output is Output.JSON:
        show_json(comparison.facts())
        return
    _show(comparison)


def _show(comparison: "Comparison") -> None:
    runs = (comparison.a.run, comparison.b.run)
    show_table(
        ("differs", *runs),
        [(d.key, _value(d.a), _value(d.b)) for d in comparison.differences],
        empty="The two runs were made of the same.",
    )
    print()
    first, second = comparison.facts()["runs"]
    rows = [
        (name.replace("_", " "), _value(first[name]), _value(second[name]))
        for name in ("state", "attempts", "last_step", "last_loss", "lowest_loss", "lowest_loss_step")
    ]
    show_table(("came of it", *runs), rows, empty="", right=runs)
    print()
    began = [(name, a or "", b or "") for name, (a, b) in comparison.facts()["beginning"].items()]
    show_table(("until it trained", *runs), began, empty="")
    print()
    show_table(
        ("loss at step", *runs, "difference"),
        [
            (str(row["step"]), number(row["a"]), number(row["b"]), f"{row['b'] - row['a']:+.4f}")
            for row in comparison.losses
        ],
        empty="They have no step with a loss in common.",
        right=("loss at step", *runs, "difference"),
    )


def _value(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
