"""What is staged and who uses it: lists it, finds one by name, takes one away that nobody needs."""

from datetime import datetime
from pathlib import Path
from typing import Any

from tasks.pod import records, trash
from tasks.pod.area import staging_area
from tasks.pod.datasets import list_staged as list_staged_datasets
from tasks.pod.errors import BadInputError, ChangedError, NotThereError
from tasks.pod.layout import Layout
from tasks.pod.references import plans
from tasks.pod.runs import attempts_of, read_attempts
from tasks.pod.snapshots import list_staged as list_staged_snapshots
from tasks.pod.staging import snapshot_identity
from tasks.pod.unreferenced import remove_snapshot

_SHORTEST = 6


def list_snapshots(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Every staged snapshot: "snapshots", as `tasks.pod.snapshots.list_staged` has them, with "shared_bytes" (that
    other names on the volume keep too), "used_by" (runs) and "last_used" (seconds since 1970, or null)."""
    used = uses(layout, "weights")
    found = list_staged_snapshots(layout, {})["snapshots"]
    return {"snapshots": [entry | use(layout, entry["path"], used) for entry in found]}


def list_datasets(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Every staged dataset version: "datasets", with the same three."""
    used = uses(layout, "dataset")
    found = list_staged_datasets(layout, {})["datasets"]
    return {"datasets": [entry | use(layout, entry["path"], used) for entry in found]}


def find_snapshot(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """The staged snapshot that a name means, without asking a Hub, and where the volume is mounted.

    Args:
        arguments: "repo_type" (default "model"), "repo", "revision" (a ref, a commit or its first digits; null: the
            only one that is staged, else the one of `main`).

    Returns:
        One of `list_snapshots`, and "root": the volume's directory as this program sees it.

    Raises:
        NotThereError: none is staged by that name; says what is.
        BadInputError: several are meant.
    """
    repo, revision = arguments["repo"], arguments.get("revision")
    kind = arguments.get("repo_type") or "model"
    there = [
        entry
        for entry in list_snapshots(layout, {})["snapshots"]
        if (entry["repo_type"], entry["repo"]) == (kind, repo)
    ]
    if revision is None:
        found = there if len(there) == 1 else [entry for entry in there if "main" in entry["refs"]]
    else:
        found = [entry for entry in there if revision in entry["refs"] or _begins(entry["commit"], revision)]
    if len(found) == 1:
        return {**found[0], "root": str(layout.root)}
    named = f"{repo}@{revision}" if revision else repo
    known = ", ".join(f"{entry['commit'][:12]} ({', '.join(entry['refs']) or 'no branch'})" for entry in there)
    if found or (there and revision is None):
        raise BadInputError(f"{named} means several staged snapshots: {known}.", "Say which: ORG/NAME@COMMIT.")
    hint = f"Staged of it: {known}." if there else "`slipway models` lists what is staged."
    raise NotThereError(f"{named} is not staged on this volume.", hint)


def remove_model(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Take a snapshot away: references first, then renamed, then removed. Files that others share stay theirs.

    Args:
        arguments: "repo_type", "repo", "commit", "over" (runs that have ended although no end is on record).

    Returns:
        "path", "bytes", "freed" (bytes that no other name keeps).

    Raises:
        NotThereError: it is not staged.
        ChangedError: a live or planned run uses it; names them.
    """
    kind, repo, commit = arguments.get("repo_type") or "model", arguments["repo"], arguments["commit"]
    with staging_area(layout, snapshot_identity(kind, repo, commit)):
        record = records.read_if_there(layout.snapshot_manifest(kind, repo, commit))
        if record is None:
            raise NotThereError(f"{repo}@{commit} is not staged on this volume.", "`slipway models` lists what is.")
        refuse_if_used(layout, "weights", record["path"], set(arguments.get("over") or ()))
        path = layout.root / record["path"]
        freed = trash.Links().free(path)
        remove_snapshot(layout, record, path)
    return {"path": record["path"], "bytes": record["bytes"], "freed": freed}


def remove_dataset(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Take a dataset version away.

    Args:
        arguments: "name", "version", "over".

    Returns, Raises: as `remove_model`.
    """
    path = layout.dataset(arguments["name"], arguments["version"])
    record = records.read_if_there(path / "manifest.json")
    if record is None:
        raise NotThereError(
            f"There is no version {arguments['version']!r} of dataset {arguments['name']!r} on this volume.",
            "`slipway datasets` lists what is there.",
        )
    refuse_if_used(layout, "dataset", record["path"], set(arguments.get("over") or ()))
    freed = trash.Links().free(path)
    trash.take_away(layout, path)
    if not any(path.parent.iterdir()):
        path.parent.rmdir()
    return {"path": record["path"], "bytes": record["bytes"], "freed": freed}


def uses(layout: Layout, what: str) -> dict[str, list[tuple[str, float]]]:
    """Path of "weights" or of a "dataset" → the runs that read it, each with when it last began to."""
    found: dict[str, list[tuple[str, float]]] = {}
    for plan in plans(layout):
        if read := plan["resolved"].get(what):
            found.setdefault(read["path"], []).append((plan["run"], _last_used(layout, plan)))
    return found


def _last_used(layout: Layout, plan: dict[str, Any]) -> float:
    attempts = attempts_of(layout, plan["run"])
    begun = [path.stat().st_mtime for path in attempts.glob("*.started.json")] if attempts.is_dir() else []
    return max([datetime.fromisoformat(plan["created_at"]).timestamp(), *begun])


def use(layout: Layout, path: str, known: dict[str, list[tuple[str, float]]]) -> dict[str, Any]:
    """What the lists say of one: "shared_bytes", "used_by", "last_used".

    Args:
        known: as `uses` found it.
    """
    users = known.get(path, [])
    return {
        "shared_bytes": _shared(layout.root / path),
        "used_by": sorted(run for run, _ in users),
        "last_used": max((when for _, when in users), default=None),
    }


def _shared(root: Path) -> int:
    stats = {(stat.st_dev, stat.st_ino): stat for path in root.rglob("*") if path.is_file() for stat in [path.stat()]}
    return sum(stat.st_size for stat in stats.values() if stat.st_nlink > 1)


def _begins(commit: str, revision: str) -> bool:
    return len(revision) >= _SHORTEST and commit.startswith(revision)


def refuse_if_used(layout: Layout, what: str, path: str, over: set[str]) -> None:
    """Raises: ChangedError: a live or planned run reads it; names them.

    Args:
        over: runs that have ended although no end is on record.
    """
    using = []
    for plan in plans(layout):
        read = plan["resolved"].get(what)
        if read is None or not (read["path"] == path or read["path"].startswith(f"{path}/")):
            continue
        attempts = read_attempts(layout, plan["run"])
        ended = bool(attempts) and (attempts[-1]["end"] is not None or plan["run"] in over)
        if not ended:
            using.append(f"{plan['run']} ({'live' if attempts else 'planned'})")
    if using:
        raise ChangedError(
            f"{path} is used by {', '.join(sorted(using))}.", "Stop them, or wait until they have ended."
        )
