"""Which checkpoints of a volume's runs stay and which go, and taking those away: the oldest first, only after a newer
one is proven, never what anybody needs. What is not a run's own is `tasks.pod.unreferenced`'s."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.pod import references, trash, unreferenced
from tasks.pod.checkpoints import fingerprint
from tasks.pod.checkpoints.faults import UnclearError
from tasks.pod.checkpoints.look import look
from tasks.pod.checkpoints.tree import scan
from tasks.pod.errors import BadInputError, PodError
from tasks.pod.layout import Layout, real
from tasks.pod.letting_go import finish_deleting
from tasks.pod.runs import read_attempts, read_plan
from tasks.pod.trainers.table import adapter_of

GRACE_SECONDS = 900.0
"""How long anything stays after it was last written, linked or renamed."""


@dataclass(frozen=True)
class Policy:
    """What to keep of a run besides its newest complete checkpoint.

    Args:
        keep_last: so many of the newest complete ones; None for no such rule.
        keep_every: those at multiples of so many steps; None for no such rule.
    """

    keep_last: int | None = None
    keep_every: int | None = None

    @property
    def says_something(self) -> bool:
        return self.keep_last is not None or self.keep_every is not None


@dataclass(frozen=True)
class Fate:
    """What becomes of one checkpoint, and why.

    Args:
        checkpoint: as a report has it.
        goes: whether it is to be deleted.
    """

    checkpoint: dict[str, Any]
    goes: bool
    why: str


def plan(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """What `prune` would do with the same arguments; changes nothing.

    Args:
        layout: the volume.
        arguments: {"runs": ids, or null for all on record; "keep_last", "keep_every": numbers or null, for runs that
            have no policy of their own, and for those that `runs` names; "grace_seconds"; "unreferenced": also delete
            snapshots and datasets that no run refers to}.

    Returns:
        {"runs": [{"run", "policy", "kept": [{"path", "step", "why"}], "deleted": [{"path", "step", "bytes", "freed",
        "why", "done"}]}], "unreferenced": [{"kind", "path", "bytes", "freed", "deleted", "why"}],
        "leftovers": {"count", "freed"}, "freed_bytes"}. `freed` counts what no other link keeps, once those before it
        have gone.

    Raises:
        NotThereError: a run that is named is not on record.
    """
    return _go_through(layout, arguments, really=False)


def prune(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Do what `plan` says, looking again before each deletion. Killed at any point, the next call finishes the work."""
    return _go_through(layout, arguments, really=True)


def fates(
    found: Sequence[dict[str, Any]], policy: Policy, needed: dict[str, str], young: frozenset[str] = frozenset()
) -> list[Fate]:
    """Decide on the checkpoints of one run. Pure.

    Args:
        found: a report's, oldest step first.
        needed: path as in the report → why it has to stay.
        young: paths that changed within the grace time.
    """
    complete = [c for c in found if c["verdict"] == "complete"]
    newest = complete[-1]["path"] if complete else ""
    in_order = len({c["step"] is None for c in complete}) < 2
    kept = _kept(complete, policy)
    decided, older = [], bool(complete)
    for c in found:
        older = older and c["path"] != newest
        if why := needed.get(c["path"]) or kept.get(c["path"]):
            stays = why
        elif c["verdict"] == "unknown":
            stays = f"it can not be proven either way: {c['why']}"
        elif not older:
            stays = "no newer one is complete"
        elif not policy.says_something:
            stays = "no policy"
        elif not in_order and c["verdict"] == "complete":
            stays = "not every step of this run is known"
        else:
            stays = "changed a moment ago" if c["path"] in young else ""
        torn = f"torn ({c['why']}), and " if c["verdict"] == "incomplete" else ""
        decided.append(Fate(c, not stays, stays or f"{torn}{newest} is complete"))
    return decided


def _kept(complete: Sequence[dict[str, Any]], policy: Policy) -> dict[str, str]:
    """Path → why: by kind, because weights only are no substitute for what can be resumed."""
    kept = {}
    for kind in (True, False):
        alike = [c for c in complete if c["resumable"] is kind]
        for place, c in enumerate(reversed(alike)):
            if place == 0:
                kept[c["path"]] = "the newest complete one" if c is complete[-1] else "the newest of its kind"
            elif policy.keep_last is not None and place < policy.keep_last:
                kept[c["path"]] = f"one of the last {policy.keep_last}"
            elif policy.keep_every and c["step"] is not None and c["step"] % policy.keep_every == 0:
                kept[c["path"]] = f"at a multiple of {policy.keep_every}"
    return kept


def _go_through(layout: Layout, arguments: dict[str, Any], *, really: bool) -> dict[str, Any]:
    links, named = trash.Links(), arguments.get("runs")
    grace = float(GRACE_SECONDS if arguments.get("grace_seconds") is None else arguments["grace_seconds"])
    left = trash.leftovers(layout)
    answer: dict[str, Any] = {"leftovers": {"count": len(left), "freed": sum(links.free(path) for path in left)}}
    if really:
        for path in left:
            trash.remove(path)
        for name in _deleted(layout):  # by a call that was killed
            answer["leftovers"]["freed"] += finish_deleting(layout, name)
    said = Policy(arguments.get("keep_last"), arguments.get("keep_every"))
    chosen = [read_plan(layout, run) for run in named] if named else list(references.plans(layout))
    answer["runs"] = [_of_run(layout, run, said, bool(named), grace, links, really=really) for run in chosen]
    answer["unreferenced"] = (
        []
        if named
        else list(unreferenced.go_through(layout, grace, links, really=really and bool(arguments.get("unreferenced"))))
    )
    gone = [item for run in answer["runs"] for item in run["deleted"] if item["done"] or not really]
    gone += [
        item for item in answer["unreferenced"] if item["deleted"] or (not really and arguments.get("unreferenced"))
    ]
    answer["freed_bytes"] = answer["leftovers"]["freed"] + sum(item["freed"] for item in gone)
    return answer


def _deleted(layout: Layout) -> list[str]:
    return sorted(path.parent.name for path in (layout.ours / "runs").glob("*/deleted.json"))


def _of_run(
    layout: Layout, plan: dict[str, Any], said: Policy, named: bool, grace: float, links: trash.Links, *, really: bool
) -> dict[str, Any]:
    run, trainer = plan["run"], plan["trainer"]
    wanted = (plan.get("request") or {}).get("retention") or {}
    own = Policy(wanted.get("keep_last"), wanted.get("keep_every"))
    policy = said if said.says_something and (named or not own.says_something) else own
    answer: dict[str, Any] = {"run": run, "policy": vars(policy), "kept": [], "deleted": []}
    if linked := _link_on_the_way(layout, run, trainer["checkpoints"]):
        if named:
            raise BadInputError(f"{linked} is a link.", "Remove it, or prune the run it leads to.")
        answer["kept"].append({"path": linked, "step": None, "why": "it is a link: what is there is not the run's"})
        return answer
    ask = {"format": trainer["checkpoint_format"], "checkpoints": trainer["checkpoints"]}
    report = look(layout, {"runs": {run: ask}})["reports"][run]
    found = report["checkpoints"]
    if _thins_out_itself(layout, plan):
        policy = Policy()
    young = frozenset(c["path"] for c in found if time.time() - trash.last_change(layout.run(run) / c["path"]) < grace)
    needed = _within(references.needed(layout), run) | _linked(layout, run, found)
    for fate in fates(found, policy, needed, young):
        shown = {"path": fate.checkpoint["path"], "step": fate.checkpoint["step"], "why": fate.why}
        if not fate.goes:
            answer["kept"].append(shown)
            continue
        path = layout.run(run) / fate.checkpoint["path"]
        item = {**shown, "bytes": fate.checkpoint["bytes"], "freed": 0, "done": False}
        if not really:
            item["freed"] = links.free(path)
        elif why := _in_the_way(layout, run, fate, found, report["latest_complete"]):
            item["why"] = f"left: {why}"
        else:
            item["freed"] = links.free(path)
            item["done"] = trash.take_away(layout, path)
        answer["deleted"].append(item)
    newest = next((c for c in found if c["path"] == report["latest_complete"]), None)
    if newest and policy.says_something:
        answer["deleted"] += list(_torn(layout, run, newest, grace, links, really=really))
    return answer


def _link_on_the_way(layout: Layout, run: str, checkpoints: str) -> str:
    """What is a link of a run's directory and that of its steps, relative to the volume; empty if neither is."""
    home = layout.run(run)
    for path, there in ((home, real(layout.root) / "runs" / run), (home / checkpoints, real(home) / checkpoints)):
        if real(path) != there:
            return layout.relative(path)
    return ""


def _within(needs: references.Needs, run: str) -> dict[str, str]:
    start = f"runs/{run}/"
    return {path.removeprefix(start): why for path, why in needs.checkpoints.items() if path.startswith(start)}


def _linked(layout: Layout, run: str, found: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The steps that others are links to."""
    home = layout.run(run)
    paths = {real(home / c["path"]): c["path"] for c in found if not (home / c["path"]).is_symlink()}
    links = {c["path"]: real(home / c["path"]) for c in found if (home / c["path"]).is_symlink()}
    return {paths[target]: f"{link} is a link to it" for link, target in links.items() if target in paths}


def _in_the_way(layout: Layout, run: str, fate: Fate, found: Sequence[dict[str, Any]], newest: str) -> str:
    """What has come up since it was decided; empty if nothing has."""
    if why := _within(references.needed(layout), run).get(fate.checkpoint["path"]):
        return why
    for c in (fate.checkpoint, next(c for c in found if c["path"] == newest)):
        try:
            same = fingerprint.same_listing(c["fingerprint"], scan(layout.run(run) / c["path"]))
        except (OSError, UnclearError):
            same = False
        if not same:
            return f"{c['path']} changed meanwhile"
    return ""


def _thins_out_itself(layout: Layout, plan: dict[str, Any]) -> bool:
    """Whether a live trainer removes its own old checkpoints: some crash if those are gone already."""
    attempts = read_attempts(layout, plan["run"])
    if not attempts or attempts[-1]["end"] is not None:
        return False
    try:
        return adapter_of(plan).needs(plan["config"]).keep_last is not None
    except (PodError, KeyError):
        return False


def _torn(
    layout: Layout, run: str, newest: dict[str, Any], grace: float, links: trash.Links, *, really: bool
) -> Iterator[dict[str, Any]]:
    """What prepare set aside, once the run has come further than it was then."""
    for attempt in read_attempts(layout, run):
        aside = layout.records(run) / "torn" / str(attempt["attempt"])
        further = (newest["step"] or 0) > attempt["resume"]["step"]
        if not aside.is_dir() or not further or time.time() - trash.last_change(aside) < grace:
            continue
        yield {
            "path": layout.relative(aside),
            "step": None,
            "bytes": sum(path.lstat().st_size for path in aside.rglob("*") if path.is_file()),
            "why": f"set aside before attempt {attempt['attempt']}, and {newest['path']} is complete",
            "freed": links.free(aside),
            "done": really and trash.take_away(layout, Path(aside)),
        }
