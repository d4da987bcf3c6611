"""`slipway runs`: what runs there are, what became of them, their logs, and stopping them. Needs no Prefect."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.command import NamedCommand
from flows.cli.options import ClusterName, OfVolume, Output, OutputFormat, Owner, RunName
from flows.cli.place import connect, usable_volumes, volume_of
from flows.cli.show import ago, number, printable, say, show_facts, show_json, show_table

if TYPE_CHECKING:
    from blocks.clusters.port import Cluster
    from tasks.reports.story import Story
    from tasks.runs.records import Attempt, RunRecord
    from tasks.runs.state import RunState

app = typer.Typer(help="Training runs.", no_args_is_help=True)


@app.command("list")
def list_runs(
    volume: Annotated[str | None, typer.Option(metavar="NAME", help="Only those of one volume.")] = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Show all runs, oldest first."""
    from blocks.clusters.names import check_name

    place = connect(cluster, owner)
    volumes = [check_name("volume", volume)] if volume else usable_volumes(place)
    found = [row for name in volumes for row in _rows(place, name)]
    found.sort(key=lambda row: (row["created_at"] or "", row["run"]))
    if output is Output.JSON:
        show_json(found)
        return
    show_table(
        ("run", "volume", "state", "reason", "step", "loss", "attempts", "parent", "created"),
        [
            (
                *(row["run"], row["volume"], row["state"], row["reason"], _steps(row["step"], row["max_steps"])),
                *(number(row["loss"]), str(row["attempts"] or ""), row["parent"] or "", _ago(row["created_at"])),
            )
            for row in found
        ],
        empty="There are no runs. Start one: slipway train CONFIG.toml",
        right=("step", "loss", "attempts"),
        wraps="reason",
    )


@app.command(cls=NamedCommand)
def show(
    run: RunName,
    volume: OfVolume = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Show what a run was made of, how far it came, and how its attempts ended."""
    from tasks.reports.story import tell

    place = connect(cluster, owner)
    where = volume_of(place, run, volume)
    story = tell(place, where, run)
    if output is Output.JSON:
        show_json(
            {**story.facts(), "volume": where, **_records(story, place.call(where, "runs.rendered", {"run": run}))}
        )
        return
    show_facts(_facts(story, where))
    if story.checkpoints:
        from flows.cli.checkpoints import show_checkpoints

        print()
        show_checkpoints(list(story.checkpoints))
    if story.record.attempts:
        print()
        show_table(
            ("attempt", "from", "ended", "cause", "reason"),
            [_attempt(attempt, story.state) for attempt in story.record.attempts],
            empty="",
            right=("attempt",),
            wraps="reason",
        )


@app.command(cls=NamedCommand)
def logs(
    run: RunName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the attempt is over.")] = False,
    tail: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Begin with so many of the last lines. [default: all]")
    ] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="Which attempt. [default: the last]")] = None,
    volume: OfVolume = None,
    cluster: ClusterName = None,
    owner: Owner = None,
) -> None:
    """Print what a run's attempt has logged."""
    from tasks.runs.launch import read_run

    place = connect(cluster, owner)
    record = read_run(place, volume_of(place, run, volume), run)
    chosen = _chosen(record, attempt)
    job = chosen.job or ""
    log = None
    while True:
        status = place.jobs.status([job]).get(job)
        if status is None:
            _remembered(chosen)
            return
        log = log or place.jobs.logs(job, last=tail)
        for line in log:
            print(printable(line))
        sys.stdout.flush()
        if not follow or not status.live:
            break
        time.sleep(place.poll_seconds)
    if follow:
        say(f"Attempt {chosen.attempt} of run {run} ended as {status.state}: {status.reason or 'no reason given'}.")


@app.command(cls=NamedCommand)
def stop(
    run: RunName,
    volume: OfVolume = None,
    cluster: ClusterName = None,
    owner: Owner = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Stop a run's job. Its checkpoints stay; asking for the run again continues from the newest complete one."""
    from tasks.runs.launch import read_run
    from tasks.runs.launch import stop as stop_run
    from tasks.runs.state import run_state

    place = connect(cluster, owner)
    where = volume_of(place, run, volume)
    end = stop_run(place, where, run, reason="stopped by hand")
    state, reason = (end.state, end.reason) if end else ("", "")
    if end is None:
        now = run_state(place, [read_run(place, where, run)])[run]
        state, reason = now.state, now.reason
    if output is Output.JSON:
        show_json({"run": run, "volume": where, "state": state, "reason": reason, "stopped": end is not None})
    elif end is None:
        say(f"Nothing of run {run} is live: it is {state}{f' ({reason})' if reason else ''}.")
    else:
        say(f"Run {run} is {state}: {reason}.")


def _rows(cluster: "Cluster", volume: str) -> list[dict[str, Any]]:
    from tasks.runs.launch import read_runs
    from tasks.runs.state import run_state

    records, damaged = read_runs(cluster, volume)
    states = run_state(cluster, records)
    rows = [_row(record, states[record.run], volume) for record in records]
    return rows + [_damaged_row(run, why, volume) for run, why in sorted(damaged.items())]


def _damaged_row(run: str, why: str, volume: str) -> dict[str, Any]:
    known = {"run": run, "volume": volume, "state": "damaged", "reason": why}
    unknown = ("step", "max_steps", "loss", "attempts", "parent", "parent_step", "created_at")
    return known | dict.fromkeys(unknown)


def _row(record: "RunRecord", state: "RunState", volume: str) -> dict[str, Any]:
    metrics, source = record.metrics or {}, record.plan.resolved.source
    return {
        "run": record.run,
        "volume": volume,
        "state": state.state,
        "reason": state.reason,
        "step": metrics.get("step", record.last.resume.step if record.last else 0),
        "max_steps": record.plan.max_steps,
        "loss": metrics.get("loss"),
        "attempts": len(record.attempts),
        "parent": source.run if source else None,
        "parent_step": source.step if source else None,
        "created_at": record.plan.created_at.isoformat(),
    }


def _facts(story: "Story", volume: str) -> dict[str, str]:
    facts, plan = story.facts(), story.record.plan
    resolved, source = plan.resolved, plan.resolved.source
    weights = f"{resolved.weights.repo}@{resolved.weights.commit}" if resolved.weights.repo else resolved.weights.path
    loss = f"{number(facts['first_loss'])} → {number(facts['last_loss'])}" if facts["last_loss"] is not None else ""
    reason = f": {story.state.reason}" if story.state.reason else ""
    return {
        "run": story.run,
        "state": f"{story.state.state}{reason}",
        "volume": volume,
        "trainer": plan.trainer.kind,
        "steps": _steps(facts["last_step"] or (source.step if source else 0), plan.max_steps),
        "loss": loss,
        "lowest loss": _lowest(story),
        "weights": weights,
        **story.beginning(),
        "dataset": resolved.dataset.path if resolved.dataset else "",
        "continued from": f"step {source.step} of {source.run or source.path}" if source else "",
        "image": _image(story),
        "version": plan.version,
        "created": f"{plan.created_at.astimezone():%Y-%m-%d %H:%M:%S} ({ago(plan.created_at)})",
    }


def _records(story: "Story", rendered: dict[str, Any]) -> dict[str, Any]:
    """What is on record of a run beyond its facts."""
    plan = story.record.plan
    return {
        **story.summary(),
        "created_at": plan.created_at,
        "version": plan.version,
        "request_hash": plan.request_hash,
        "trainer": plan.request.trainer.model_dump(mode="json"),
        "config": plan.config,
        "configs_as_run": rendered["attempts"],
        "history": [attempt.model_dump(mode="json") for attempt in story.record.attempts],
    }


def _lowest(story: "Story") -> str:
    summary = story.summary()
    return (
        f"{number(summary['lowest_loss'])} at step {summary['lowest_loss_step']}" if summary["lowest_loss_step"] else ""
    )


def _image(story: "Story") -> str:
    ends = [attempt.end for attempt in story.record.attempts if attempt.end]
    digest = next((end.image_digest for end in reversed(ends) if end.image_digest), None)
    image = story.record.plan.trainer.image or ("Slipway's own" if digest else "")
    return f"{image} ({digest})" if digest else image


def _attempt(attempt: "Attempt", state: "RunState") -> tuple[str, ...]:
    origin = {"base": "base weights", "hold": f"held step {attempt.resume.step}", "own": f"step {attempt.resume.step}"}
    end = attempt.end
    if end is None:
        return (str(attempt.attempt), origin[attempt.resume.kind], state.state, "", state.reason)
    exit_code = f" ({end.exit_code})" if end.exit_code else ""
    return (str(attempt.attempt), origin[attempt.resume.kind], end.state, f"{end.cause}{exit_code}", end.reason)


def _chosen(record: "RunRecord", number: int | None) -> "Attempt":
    from blocks.clusters.errors import NotFoundError

    there = {attempt.attempt: attempt for attempt in record.attempts}
    if not there:
        raise NotFoundError(f"Run {record.run} has no attempt yet.", "Ask for the run to launch it.")
    if number is not None and number not in there:
        raise NotFoundError(
            f"Run {record.run} has no attempt {number}.", f"Attempts there are: {', '.join(map(str, there))}."
        )
    return there[number or max(there)]


def _remembered(attempt: "Attempt") -> None:
    """What the records keep of the log of a job that is gone."""
    lines = attempt.end.last_lines if attempt.end else ()
    say(f"The job of attempt {attempt.attempt} is gone{', its last lines were:' if lines else ' and so is its log.'}")
    for line in lines:
        print(printable(line))


def _steps(step: int | None, most: int | None) -> str:
    return f"{step}/{most}" if most else "" if step is None else str(step)


def _ago(iso: str | None) -> str:
    from datetime import datetime

    return ago(datetime.fromisoformat(iso)) if iso else ""
