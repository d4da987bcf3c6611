"""`slipway sweep FILE`: search for the best of many runs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import (
    BaseModel,
    Changes,
    ClusterName,
    HubName,
    Output,
    OutputFormat,
    Owner,
    Placement,
    VolumeSize,
    WeightsFallback,
    WeightsFrom,
    WeightsSha256,
)
from flows.cli.show import number, say, show_facts, show_json, show_table, waiting

if TYPE_CHECKING:
    from blocks.settings import Settings
    from blocks.trainer_settings import TrainerSettings
    from tasks.stages.source import DatasetRequest
    from tasks.sweeping import SweepResult
    from tasks.sweeps.ask import SweepFile
    from tasks.sweeps.plan import SweepPlan


def add_to(app: typer.Typer) -> None:
    app.command()(sweep)


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The sweep file, TOML.")],
    only_plan: Annotated[
        bool, typer.Option("--plan", help="Show the plan and the first trials, and stop there.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(metavar="SWEEP", help="Its name. [default: the file's, else made up]")
    ] = None,
    changes: Changes = None,
    model: BaseModel = None,
    volume: Annotated[str | None, typer.Option(metavar="NAME", help="[default: the file's, else the config's]")] = None,
    volume_size: VolumeSize = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME=SOURCE", help="A dataset to stage. [default: the file's]")
    ] = None,
    trainer: Annotated[str | None, typer.Option(metavar="NAME", help="A trainer of slipway.toml.")] = None,
    weights: WeightsFrom = Placement.VOLUME,
    weights_fallback: WeightsFallback = False,
    weights_sha256: WeightsSha256 = False,
    hub: HubName = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Train many variations of a run and compare them.

    The same sweep again goes on where it was, or says what came of it.
    """
    from blocks.settings import read_settings
    from flows.cli.config import new_name, read_changes
    from flows.cli.launch import cluster_block, hub_block, import_flows, interruptible, trainer_block
    from flows.cli.prefect_server import prefect_server
    from tasks.runs.ask import ask_run
    from tasks.runs.request import WeightsRequest
    from tasks.sweeps.ask import ask_sweep, read_sweep_file
    from tasks.sweeps.plan import make_sweep_plan

    settings, asked = read_settings(), read_sweep_file(file)
    place, access = settings.cluster(cluster, owner), settings.hub(hub)
    how = settings.trainer(trainer or asked.trainer)
    called = name or asked.name or new_name("sweep")
    keys = {**asked.changes, **read_changes(changes)}
    text, wanted = _config(asked, file, how), _dataset(asked, dataset, settings)
    size = volume_size or asked.volume_size
    reads = WeightsRequest(placement=weights.value, fallback=weights_fallback, sha256=weights_sha256)
    base = ask_run(
        called,
        text,
        how,
        changes=keys,
        model=model,
        volume=volume or asked.volume,
        volume_size=size,
        dataset=wanted,
        weights=reads,
    )
    request = ask_sweep(called, asked.search, base)
    with waiting(f"planning sweep {called}"):
        made = make_sweep_plan(place, access, request)
    _show_plan(made, output, only=only_plan)
    if only_plan:
        return

    def flow() -> "SweepResult":
        from flows.sweep import sweep as sweep_flow

        return sweep_flow(
            cluster=cluster_block(settings, cluster, owner),
            hub=hub_block(access),
            trainer=trainer_block(how),
            name=called,
            config=text,
            set=keys,
            model=model,
            search=asked.search,
            dataset=wanted,
            weights=reads,
            volume=base.volume,
            volume_size=(size or "").strip(),
        )

    goes_on = f"Stopped following. Its trials go on. `slipway sweep {file}` takes it up, `slipway sweeps stop` ends it."
    with interruptible(lambda: say(goes_on)), prefect_server(settings.folder):
        import_flows()
        result = flow()
    _show_result(result, output)


def _config(asked: "SweepFile", file: Path, trainer: "TrainerSettings") -> str:
    """The base config as text, in the trainer's own format."""
    import json

    import tomli_w

    from blocks.clusters.errors import UsageError
    from flows.cli.config import read_config
    from tasks.pod.trainers.table import adapter

    if asked.config is None:
        raise UsageError(f"{file} names no config.", 'Write config = "finetune.toml", or a table [config].')
    if isinstance(asked.config, Path):
        return read_config(asked.config)
    in_toml = adapter(trainer.kind, trainer.options).config_name.endswith(".toml")
    return tomli_w.dumps(asked.config) if in_toml else json.dumps(asked.config)  # YAML reads JSON


def _dataset(asked: "SweepFile", text: str | None, settings: "Settings") -> "DatasetRequest | None":
    from blocks.clusters.errors import UsageError
    from flows.cli.config import dataset_request, read_dataset

    if text is not None or asked.dataset is None:
        return read_dataset(text, settings)
    given = {"name": "", "source": "", "version": None, **asked.dataset}
    if more := sorted(given.keys() - {"name", "source", "version"}):
        raise UsageError(f"dataset.{more[0]} is no key of a sweep file.", "It has name, source and version.")
    return dataset_request(str(given["name"]), str(given["source"]), given["version"], settings)


def _show_plan(plan: "SweepPlan", output: Output, *, only: bool) -> None:
    """On standard error, unless the plan is all that was asked for as JSON.

    Raises:
        typer.Exit: something is blocked.
    """
    from tasks.sweeps.plan import show_value

    if only and output is Output.JSON:
        show_json(plan.model_dump(mode="json", exclude={"runs", "record"}))
    else:
        say(f"Plan of sweep {plan.request.sweep}")
        rows = [
            (i.mark.value, i.subject, f"{i.detail} {i.remedy}".strip()) for i in plan.items if i not in plan.blocked
        ]
        show_table(("", "what", "details"), rows, empty="", wraps="details", to_stderr=True)
        keys = sorted({key for start in plan.first for key in start.point})
        say("\nThe first trials")
        trials = [(start.run, *(show_value(start.point.get(key)) for key in keys)) for start in plan.first]
        show_table(("run", *keys), trials, empty="none", right=tuple(keys), to_stderr=True)
        say("")
    for item in plan.blocked:
        print(f"error: {item.subject}: {item.detail} {item.remedy}".rstrip(), file=sys.stderr)
    if plan.blocked:
        say("Nothing was launched.")
        wrong = any(item.subject.startswith(("config ", "axis ")) for item in plan.blocked)
        raise typer.Exit(2 if wrong else 1)


def _show_result(result: "SweepResult", output: Output) -> None:
    if output is Output.JSON:
        show_json(result.model_dump(mode="json"))
        return
    from tasks.sweeps.plan import show_value

    show_facts(
        {
            "sweep": result.sweep,
            "volume": result.volume,
            "trials": f"{result.trials}, {result.failed} failed" if result.failed else str(result.trials),
            "best": result.best or "",
            "value": number(result.value),
            **{key: show_value(value) for key, value in result.point.items()},
        }
    )
    say(
        f"The leaderboard: slipway sweeps show {result.sweep}. To train the best on: slipway fork {result.sweep} --best"
    )
