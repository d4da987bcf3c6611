"""Runs as Markdown, for the artifacts of the Prefect UI. Pure.

The picture is an address of its own, the tables are plain: what both of Prefect's UIs can show.
"""

from collections.abc import Collection, Sequence
from typing import Any

from blocks.clusters.size import format_size
from tasks.reports.beginning import beginning
from tasks.reports.curves import Curve, data_uri, draw_curves
from tasks.reports.family import Member, branches
from tasks.reports.story import Story
from tasks.runs.follow import Progress
from tasks.runs.records import PlanRecord, Resume

_MOST_RUNS = 200
_DEEPEST = 8
"""A list that lies deeper than that has no room left on a narrow screen."""


def training_page(progress: Progress, waits: Sequence[str], *, lineage: str = "", paged: Collection[str] = ()) -> str:
    """What a run does, how far it is, what it waited for, and what came out.

    Args:
        waits: what its job waited for, oldest first.
        lineage: the key of its family's page, if there is one.
        paged: the runs that have a page like this one.
    """
    plan, attempt = progress.launch.plan, progress.launch.attempt
    complete = [c for c in progress.checkpoints if c["verdict"] == "complete"]
    newest = f"step {complete[-1]['step']}: `runs/{plan.run}/{complete[-1]['path']}`" if complete else "none yet"
    facts = {
        "how far": how_far(progress),
        "started from": _linked(origin(plan, attempt.resume), plan, paged),
        **({"lineage": f"[{lineage}]({artifact_link(lineage)})"} if lineage else {}),
        "attempt": f"{attempt.attempt}{', which ran already' if progress.launch.adopted else ''}",
        "waited for": "; ".join(waits) or "nothing",
        **beginning(plan, attempt, progress.curve.values()),
        "volume": f"`{plan.volume}`",
        "newest complete checkpoint": newest,
    }
    text = f"### Run `{plan.run}`\n\n| state | {_cell(state_of(progress))} |\n|---|---|\n"
    text += "\n".join(f"| {key} | {_cell(value)} |" for key, value in facts.items())
    rows = [progress.curve[step] for step in sorted(progress.curve)]
    if rows:
        source = plan.resolved.source
        steps = [c["step"] for c in complete]
        text += f"\n\n{_picture([Curve(plan.run, rows, steps, source.step if source else 0)])}"
    if progress.checkpoints:
        text += f"\n\n### Checkpoints\n\n{checkpoint_table(progress.checkpoints)}"
    if complete and progress.end is not None:
        text += (
            "\n\nTo continue from one of them, run the deployment **fork** with "
            f'`run = "{plan.run}"`, or on the command line `slipway fork {plan.run} --volume {plan.volume}`.'
        )
    return text


def report_page(stories: Sequence[Story]) -> str:
    """Runs side by side, their curves on one axis."""
    return f"### Runs side by side\n\n{_picture([s.curve() for s in stories])}\n\n{story_table(stories)}"


def checkpoint_table(checkpoints: Sequence[dict[str, Any]]) -> str:
    head = "| step | verdict | size | evidence |\n|---|---|---|---|\n"
    return head + "\n".join(
        f"| {c['step']} | {c['verdict']} | {format_size(c['bytes'])} | {_cell(c['why'])} |" for c in checkpoints
    )


def story_table(stories: Sequence[Story]) -> str:
    head = "| run | state | steps | loss | complete checkpoints | started from |\n|---|---|---|---|---|---|\n"
    rows = []
    for story in stories:
        facts, source = story.facts(), story.record.plan.resolved.source
        start = f"step {source.step} of {source.run or source.path}" if source else "the base weights"
        loss = f"{facts['first_loss']:.3f} → {facts['last_loss']:.3f}" if facts["last_loss"] is not None else ""
        steps = ", ".join(map(str, story.complete_steps))
        far = f"{facts['last_step'] or 0} of {facts['max_steps']}"
        rows.append(f"| {linked_run(story.run)} | {facts['state']} | {far} | {loss} | {steps} | {start} |")
    return head + "\n".join(rows)


def lineage_page(members: Sequence[Member], paged: Collection[str]) -> str:
    """A family of runs as a list in a list, with links to the page of each.

    Args:
        members: parents before their forks.
        paged: the runs that have a page.
    """
    text, lines = "### Lineage\n\nEach run below the one that it was forked from.\n", list(branches(members))
    for depth, member in lines[:_MOST_RUNS]:
        name = linked_run(member.run) if member.run in paged else f"`{member.run}`"
        facts = "; ".join(filter(None, (member.origin, member.became)))
        text += f"\n{'  ' * min(depth, _DEEPEST)}- {name}: {facts}"
    more = len(lines) - _MOST_RUNS
    return f"{text}\n\n… and {more} more: `slipway lineage {members[0].run}` shows all." if more > 0 else text


def artifact_link(key: str) -> str:
    """From the page of one artifact to that of another, in the UI that is in use: both have theirs in one place."""
    return f"../key/{key}"


def linked_run(run: str) -> str:
    return f"[{run}]({artifact_link(f'{run}-training')})"


def state_of(progress: Progress) -> str:
    """The run's state, with the reason where there is one."""
    if progress.end is not None:
        return _because("held" if progress.held else progress.end.state, progress.end.reason)
    return _because(progress.job.state, progress.job.reason) if progress.job else "starting"


def how_far(progress: Progress) -> str:
    steps = f"step {progress.step}"
    if progress.launch.plan.max_steps:
        steps += f" of {progress.launch.plan.max_steps}"
    loss = progress.curve.get(progress.step, {}).get("loss")
    return f"{steps}, loss {loss:.4f}" if loss is not None else steps


def origin(plan: PlanRecord, resume: Resume) -> str:
    """What an attempt continues from, in words."""
    source = plan.resolved.source
    if resume.kind == "own":
        return f"its own step {resume.step}"
    if source is not None:
        return f"step {source.step} of {source.run or source.path}"
    weights = plan.resolved.weights
    return f"the base weights, {weights.repo}" if weights.repo else f"the base weights, {weights.path}"


def _linked(text: str, plan: PlanRecord, paged: Collection[str]) -> str:
    """With a link to the page of the run that this one was forked from."""
    source = plan.resolved.source
    if source is None or source.run not in paged or not text.endswith(str(source.run)):
        return text
    return f"{text.removesuffix(str(source.run))}{linked_run(str(source.run))}"


def _because(state: str, reason: str) -> str:
    return f"{state}: {reason}" if reason and reason != state else state


def _picture(curves: Sequence[Curve]) -> str:
    return f"![loss by step; dots are complete checkpoints]({data_uri(draw_curves(curves))})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
