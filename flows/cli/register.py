"""`slipway register`: saves slipway.toml as the Prefect blocks that deployments take as parameters."""

import typer

from flows.cli.options import Output, OutputFormat


def add_to(app: typer.Typer) -> None:
    app.command()(register)


def register(output: OutputFormat = Output.TABLE) -> None:
    """Save slipway.toml as Prefect blocks."""
    from blocks.settings import read_settings
    from flows.cli.prefect_server import use_running_server
    from flows.cli.show import say, show_json

    use_running_server(read_settings().folder)
    from deployments.register import main

    saved = main()
    if output is Output.JSON:
        show_json(saved)
    else:
        say(f"Saved {', '.join(saved)}.")
