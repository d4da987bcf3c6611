"""Sweep: many runs over a search space, staged once, followed together; the best ones may be forked to go on."""

from typing import Any, cast

from prefect import Flow, State, flow, runtime
from prefect.client.schemas.objects import FlowRun

from blocks.cluster import ClusterBlock, read_cluster
from blocks.hub import HuggingFaceHub
from blocks.trainer import Trainer
from flows.parameters import NO_CHANGES, Changes, Config, ModelOrConfigs, SizeOrDefault, SweepOrMade, Volume
from flows.slots import Busy, Late, skipped, slot_name, slot_of, this_flow_run
from flows.sources import with_bucket
from tasks.errors import EXPECTED
from tasks.runs.ask import ask_run
from tasks.runs.request import IN_PLACE, WeightsRequest, run_id
from tasks.stages.source import DatasetRequest
from tasks.sweeping import SweepResult, drive_sweep, plan_sweep, report_sweep, stage_for_sweep
from tasks.sweeps.ask import ask_sweep
from tasks.sweeps.spec import SWEEP_NAME_LONGEST, Search
from tasks.sweeps.stop import stop_sweep
from tasks.volumes import provision


def sweep_label() -> str:
    """What the UI calls the flow run."""
    return f"sweep {_name((runtime.flow_run.parameters or {}).get('name'), this_flow_run())}"


def stop_trials(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Cancelling the flow stops the sweep's jobs. The same sweep asked for again goes on with them."""
    cluster = read_cluster(flow_run.parameters["cluster"]).connect()
    try:
        stopped = stop_sweep(cluster, flow_run.parameters["volume"], _name(flow_run.parameters.get("name"), flow_run))
    except EXPECTED:
        return  # it had not come to that
    print(f"stopped {len(stopped)} trials")


@flow(name="sweep", flow_run_name=sweep_label, on_cancellation=[stop_trials])
def sweep(
    *,
    name: SweepOrMade = "",
    config: Config,
    set: Changes = NO_CHANGES,  # noqa: A002 - the word that people type
    model: ModelOrConfigs = "",
    search: Search,
    dataset: DatasetRequest | None = None,
    weights: WeightsRequest = IN_PLACE,
    volume: Volume,
    volume_size: SizeOrDefault = "",
    trainer: Trainer,
    cluster: ClusterBlock,
    hub: HuggingFaceHub,
    late: Late = "latest",
    busy: Busy = "skip",
) -> SweepResult:
    """Search for the best of many runs: stage once, train trials side by side, compare them.

    Args:
        name: What the sweep is called, such as "lr": lower-case letters, digits and hyphens, 36 at most. Its trials are
            called lr-t001 and so on. Asked for again under the same name, it goes on where it was. On a schedule, the
            time is added. Left empty, a name is made.
        config: The trainer's own config file, as text: what every trial begins from.
        set: Changes to the config, so that the text above need not be touched: dotted keys and their values, such as
            {"max_steps": 100}.
        model: The base model, in place of the one that the config names: one that is staged, or another one, such as
            org/name@revision or /volume/models/NAME. Left empty: the config's.
        search: What to vary, how, and what to compare by.
        dataset: The data to train on, staged on the volume first unless it is there. None: the config names a dataset
            that is staged already.
        weights: Where the weights of the base model are read from: in place on the volume, or from a copy that is made
            on the node before training starts.
        volume: The storage that keeps weights, data and runs, such as "research"; created if it is missing.
        volume_size: Size of the volume if it has to be created, such as 500Gi or 2Ti (10Ti at most). An existing one is
            left as it is. Where none is given, the config's, else 1Ti.
        trainer: What to train with: the program, its image, and the CPUs and GPUs that a trial gets.
        cluster: Where the volume is and the trials run.
        hub: Where the model is downloaded from, if the config names one on a Hub.
        late: For schedules, when several times came due while no worker was there. latest: only the newest of them
            runs. skip: none that would start more than ten minutes late. run: all of them.
        busy: For schedules, when the sweep of an earlier time still runs. skip: this time is left out. run: beside it.
    """
    flow_run = this_flow_run()
    if (left_out := skipped(flow_run, late, busy)) is not None:
        return cast(SweepResult, left_out)  # only a schedule comes here, and nobody waits for its result
    called = _name(name, flow_run)
    place, access = cluster.connect(), hub.access()
    base = ask_run(
        called,
        config,
        trainer.settings(),
        changes=set,
        model=model,
        volume=volume,
        volume_size=volume_size,
        dataset=with_bucket(dataset),
        weights=weights,
    )
    plan = plan_sweep(place, access, ask_sweep(called, search, base))
    provision(place, volume, base.volume_size)
    record = stage_for_sweep(place, access, plan)
    drive_sweep(place, record)
    return report_sweep(place, record)


def _name(name: str | None, flow_run: FlowRun) -> str:
    """The sweep's name, the same for whoever looks at the flow run."""
    slot = slot_of(flow_run)
    if name or slot is None:
        return slot_name(name or run_id(None, "sweep", str(flow_run.id)), slot, SWEEP_NAME_LONGEST)
    return slot_name("sweep", slot, SWEEP_NAME_LONGEST)
