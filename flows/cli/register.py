"""`slipway register`: saves slipway.toml as the Prefect blocks that deployments take as parameters."""

from typing import Annotated

import typer

from flows.cli.options import Output, OutputFormat


def add_to(app: typer.Typer) -> None:
    app.command()(register)


def register(
    staged: Annotated[
        bool, typer.Option("--staged/--no-staged", help="Look at every volume for what the Run forms are to offer.")
    ] = True,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Save slipway.toml as Prefect blocks, and have the Run forms show them and the models that are staged."""
    from blocks.settings import read_settings
    from flows.cli.prefect_server import use_running_server
    from flows.cli.show import say, show_json, waiting

    use_running_server(read_settings().folder)
    from deployments.register import main

    with waiting("saving blocks, and looking at what is staged" if staged else "saving blocks"):
        saved = main(say, look=staged)
    if output is Output.JSON:
        show_json(saved)
    else:
        say(f"Saved {', '.join(saved)}.")
