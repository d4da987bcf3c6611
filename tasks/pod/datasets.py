"""Stages datasets: named, versioned, unchangeable directories with a manifest, published in one step."""

import errno
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from tasks.pod.area import clear, staging_area
from tasks.pod.contents import look_into
from tasks.pod.errors import BadInputError
from tasks.pod.files import Proof
from tasks.pod.layout import Layout, part
from tasks.pod.origins import Origin, origin_of
from tasks.pod.progress import Progress
from tasks.pod.publish import freeze
from tasks.pod.records import read_if_there, read_record
from tasks.pod.shared import manifests
from tasks.pod.staging import dataset_identity
from tasks.pod.text import replace_text

_MANIFEST = "manifest.json"


def stage(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Copy or download a dataset unless it is there, and publish it. Run as a job.

    Args:
        layout: the volume.
        arguments: "name"; "version" (null: the first 12 digits of the hash of its content); "source":
            {"kind": "folder", "path"} on the machine where the job runs,
            {"kind": "volume", "path"} on the volume, relative to it,
            {"kind": "hub", "repo", "commit", "files" (optional, as `resolve` returned them)}, or
            {"kind": "s3", "bucket", "prefix", …} (see `tasks.pod.buckets.list_objects`).

    Returns:
        As `state`.

    Raises:
        BadInputError: an unknown kind of source, an empty folder, links that lead outside; or the version exists with
            other content.
        NotThereError, NoSpaceError, ChangedError, AccessError, UnreachableError.
    """
    name, version = part("dataset name", arguments["name"]), arguments.get("version") or None
    if version:
        part("dataset version", version)
    given = arguments["source"]
    origin = origin_of(layout, given)
    if _MANIFEST in origin.files:
        raise BadInputError(f"The source has a {_MANIFEST} of its own at its top.", "Rename it: ours gets that name.")
    plain = {key: value for key, value in given.items() if key != "files"}
    with staging_area(layout, dataset_identity(name, version, plain)) as area:
        record = _staged_from(layout, name, version, origin) or _staged_equally(layout, name, version, origin)
        if record is None:
            what = f"dataset {name!r}" + (f" version {version!r}" if version else "")
            with Progress(area, what, sum(origin.files.values()), len(origin.files)) as progress:
                record = _stage(layout, area, name, version, origin, progress)
        clear(area)
    return state(layout, {"name": name, "version": record["version"]})


def state(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Whether a dataset is staged, in milliseconds.

    Args:
        layout: the volume.
        arguments: "name", "version" (null: the one staged last).

    Returns:
        "staged", "version", "path" (relative to the volume), "bytes", "files" (their number), "manifest_sha256",
        "content_sha256" (equal for equal files), "content" (as `tasks.pod.contents` found it), "staged_at".
    """
    name, version = part("dataset name", arguments["name"]), arguments.get("version") or None
    record = _record(layout, name, version) if version else _newest(layout, name)
    if record is None:
        return {"staged": False, "version": version, "path": None, "bytes": 0, "files": 0, "manifest_sha256": None}
    manifest = layout.root / record["path"] / _MANIFEST
    return {
        "staged": True,
        "version": record["version"],
        "path": record["path"],
        "bytes": record["bytes"],
        "files": len(record["files"]),
        "manifest_sha256": hashlib.sha256(manifest.read_bytes()).hexdigest(),
        "content_sha256": record["content_sha256"],
        "content": record.get("content"),
        "staged_at": record["staged_at"],
    }


def list_staged(layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """Every staged version: "datasets", each with name, version, bytes, files, staged_at, path, source."""
    shown = ("name", "version", "bytes", "staged_at", "path", "source")
    return {
        "datasets": [
            {key: record[key] for key in shown}
            | {"files": len(record["files"])}
            | {"source": {key: value for key, value in record["source"].items() if key != "versions"}}
            for record in manifests(layout, "datasets")
        ]
    }


def _stage(
    layout: Layout, area: Path, name: str, version: str | None, origin: Origin, progress: Progress
) -> dict[str, Any]:
    tree = area / "tree"
    _forget_others(tree, set(origin.files))
    proofs = origin.bring(area, tree, progress)
    content = _content_sha256(proofs)
    version = version or content[:12]
    existing = _record(layout, name, version)
    if existing:
        return _same(existing, content)
    final = layout.dataset(name, version)
    record: dict[str, Any] = {
        "name": name,
        "version": version,
        "path": layout.relative(final),
        "source": origin.record,
        "bytes": sum(origin.files.values()),
        "files": [
            {
                "path": path,
                "size": proof.size,
                "sha256": proof.sha256,
                "git_sha1": proof.git_sha1 or None,
                "xxh3": proof.xxh3,
                "mtime_ns": (tree / path).stat().st_mtime_ns,
            }
            for path, proof in sorted(proofs.items())
        ],
        "content_sha256": content,
        "content": look_into(tree, sorted(proofs)),
        "staged_at": time.time(),
    }
    for problem in record["content"]["problems"]:
        print(f"warning: {name}: {problem}", file=sys.stderr, flush=True)
    replace_text(tree / _MANIFEST, json.dumps(record, indent=1))
    try:
        freeze(tree, final)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        # another source gave the same version the same moment
        other = _record(layout, name, version)
        if other is None:
            raise BadInputError(
                f"{layout.relative(final)} exists and was not staged.", "Remove it, or name another version."
            ) from None
        return _same(other, content)
    return record


def _staged_from(layout: Layout, name: str, version: str | None, origin: Origin) -> dict[str, Any] | None:
    """A published version that came from this very source, as it is now."""
    if version:
        record = _record(layout, name, version)
        return record if record and record["source"] == origin.record else None
    return next((record for record in _versions(layout, name) if record["source"] == origin.record), None)


def _staged_equally(layout: Layout, name: str, version: str | None, origin: Origin) -> dict[str, Any] | None:
    """The version asked for, where it came from elsewhere and its content is the same.

    Raises:
        BadInputError: it has other content.
    """
    record = _record(layout, name, version) if version else None
    if record and (differences := _differences(record, origin)):
        raise _refuse_change(record, differences)
    return record if origin.hash_source else None


def _record(layout: Layout, name: str, version: str) -> dict[str, Any] | None:
    return read_if_there(layout.dataset(name, version) / _MANIFEST)


def _versions(layout: Layout, name: str) -> list[dict[str, Any]]:
    home = layout.datasets / name
    records = [read_record(path) for path in home.glob(f"*/{_MANIFEST}")]
    return sorted(records, key=lambda record: float(record["staged_at"]), reverse=True)


def _newest(layout: Layout, name: str) -> dict[str, Any] | None:
    return next(iter(_versions(layout, name)), None)


def _differences(existing: dict[str, Any], origin: Origin) -> list[str]:
    """What another source has changed, added or left out, cheapest question first."""
    sizes = {file["path"]: file["size"] for file in existing["files"]}
    changed = [path for path in sizes.keys() | origin.files.keys() if sizes.get(path) != origin.files.get(path)]
    if not changed and origin.hash_source:
        hashes = origin.hash_source()
        changed = [file["path"] for file in existing["files"] if hashes[file["path"]] != file["sha256"]]
    return sorted(changed)


def _content_sha256(proofs: dict[str, Proof]) -> str:
    listing = [[path, proof.size, proof.sha256] for path, proof in sorted(proofs.items())]
    return hashlib.sha256(json.dumps(listing).encode()).hexdigest()


def _same(existing: dict[str, Any], content: str) -> dict[str, Any]:
    if existing["content_sha256"] != content:
        raise _refuse_change(existing, [])
    return existing


def _refuse_change(existing: dict[str, Any], differences: list[str]) -> BadInputError:
    shown = ", ".join(differences[:5]) + (", …" if len(differences) > 5 else "")
    return BadInputError(
        f"Dataset {existing['name']!r} already has a version {existing['version']!r} with other content"
        + (f" (differs: {shown})." if shown else "."),
        "A version never changes: name another one, or none to get one from the content.",
    )


def _forget_others(tree: Path, wanted: set[str]) -> None:
    """Remove what an attempt from an earlier state of the source left in the area."""
    if not tree.is_dir():
        return
    for path in sorted(tree.rglob("*"), reverse=True):
        if not path.is_dir() and path.relative_to(tree).as_posix() not in wanted:
            path.parent.chmod(0o755)
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()
