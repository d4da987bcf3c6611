"""Runs a flow in this process, and says what came of its run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from flows.cli.options import Output
from flows.cli.prefect_server import ServerGoneError, prefect_server
from flows.cli.show import number, say, show_facts, show_json, waiting

if TYPE_CHECKING:
    from blocks.cluster import ClusterBlock
    from blocks.clusters.port import Cluster
    from blocks.hub import HuggingFaceHub
    from blocks.hub_access import HubAccess
    from blocks.settings import Settings
    from blocks.trainer import Trainer
    from blocks.trainer_settings import TrainerSettings
    from tasks.training import RunResult


def run_flow(
    settings: "Settings", cluster: "Cluster", volume: str, run: str, flow: "Callable[[], RunResult]", output: Output
) -> None:
    """Run a flow that makes one run, and show its result.

    Args:
        flow: imports it and calls it; called once a server is there.
    """
    with interruptible(lambda: say(_after_interrupt(cluster, volume, run))), prefect_server(settings.folder):
        import_flows()
        with server_may_go_away():
            result = flow()
    if output is Output.JSON:
        show_json(result.model_dump(mode="json"))
        return
    show_facts(
        {
            "run": result.run,
            "state": result.state,
            "volume": result.volume,
            "attempt": str(result.attempt),
            "step": str(result.step),
            "loss": number(result.loss),
            "newest complete": result.latest_complete or "",
        }
    )
    if result.state == "queued":
        say(f"Follow it: slipway runs logs {run} --follow")


def run_plain_flow(settings: "Settings", flow: Callable[[], None]) -> None:
    """Run a flow that makes no run."""
    said = "Stopped waiting. What was begun goes on; asking again follows it."
    with interruptible(lambda: say(said)), prefect_server(settings.folder):
        import_flows()
        with server_may_go_away():
            flow()


def import_flows() -> None:
    """Load Prefect and the steps of flows, which takes seconds, and say so."""
    with waiting("starting the flow"):
        import flows.train  # noqa: F401
        from flows.cli.narration import without_tracebacks_of_services

        without_tracebacks_of_services()


@contextmanager
def server_may_go_away() -> Iterator[None]:
    """Raises: ServerGoneError: the flow ended because its Prefect server, which was there, does not answer any more, or
    is another one."""
    import httpx
    from prefect.exceptions import ObjectNotFound

    remedy = "What was begun goes on; ask again to follow it."
    try:
        yield
    except httpx.TransportError as error:
        raise ServerGoneError(f"The Prefect server does not answer any more ({error}).", remedy) from error
    except ObjectNotFound as error:
        raise ServerGoneError("The Prefect server does not know this flow run any more.", remedy) from error


def cluster_block(settings: "Settings", name: str | None, owner: str | None) -> "ClusterBlock":
    """What `Settings.cluster` connects to, as the block that flows take."""
    from blocks.cluster import cluster_block

    return cluster_block(settings, name, owner)


def hub_block(access: "HubAccess") -> "HuggingFaceHub":
    from blocks.hub import HuggingFaceHub

    return HuggingFaceHub(endpoint=access.endpoint, token=access.token)


def trainer_block(trainer: "TrainerSettings") -> "Trainer":
    from blocks.trainer import Trainer

    return Trainer.model_validate(trainer.model_dump())


@contextmanager
def interruptible(explain: Callable[[], None]) -> Iterator[None]:
    """End the command as interrupted ones end, once that was explained."""
    try:
        yield
    except KeyboardInterrupt:
        explain()
        raise typer.Exit(130) from None


def _after_interrupt(cluster: "Cluster", volume: str, run: str) -> str:
    from tasks.errors import EXPECTED
    from tasks.runs.launch import read_run
    from tasks.runs.state import run_state

    try:
        record = read_run(cluster, volume, run)
        state = run_state(cluster, [record])[run]
    except EXPECTED:
        return f"Stopped before run {run} was launched. Ask for it again to go on."
    if state.live:
        return (
            f"Stopped following. Run {run} goes on ({state.state}): `slipway runs logs {run} --follow` shows it, "
            f"`slipway runs stop {run}` stops it."
        )
    return f"Stopped following. Run {run} is {state.state}. Ask for it again to go on."
