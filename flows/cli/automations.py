"""`slipway automations`: what is to happen when something did, from slipway.toml to Prefect."""

import typer

from flows.cli.options import Output, OutputFormat
from flows.cli.show import say, show_json, show_table

app = typer.Typer(help="Automations of slipway.toml: triggers and notifications.", no_args_is_help=True)


@app.command("list")
def list_automations(output: OutputFormat = Output.TABLE) -> None:
    """Show what slipway.toml says."""
    from blocks.settings import read_settings

    found = read_settings().automations
    if output is Output.JSON:
        show_json({name: one.model_dump(mode="json") for name, one in found.items()})
        return
    show_table(
        ("automation", "on", "of", "does", "switched"),
        [
            (name, one.on, one.run, one.deployment or f"notifies {one.notify}", "on" if one.enabled else "off")
            for name, one in found.items()
        ],
        empty="There are none. Write [automations.NAME] into slipway.toml.",
    )


@app.command()
def deploy(output: OutputFormat = Output.TABLE) -> None:
    """Save them in Prefect; those that are no longer in slipway.toml are removed there."""
    from blocks.settings import read_settings
    from flows.cli.prefect_server import use_running_server

    settings = read_settings()
    use_running_server(settings.folder)
    from deployments.automations import deploy as deploy_all

    saved, gone = deploy_all(settings)
    if output is Output.JSON:
        show_json({"saved": saved, "removed": gone})
        return
    say(f"Saved {', '.join(saved) or 'none'}." + (f" Removed {', '.join(gone)}." if gone else ""))
