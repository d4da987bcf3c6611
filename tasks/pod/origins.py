"""Where a dataset comes from: a folder, the volume itself, a Hub, a bucket; each lists its files and brings them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tasks.pod.errors import BadInputError
from tasks.pod.files import File, Proof, prove
from tasks.pod.folders import copy_folder, fingerprint, list_folder
from tasks.pod.hub import source as hub_source
from tasks.pod.layout import Layout
from tasks.pod.progress import Progress


@dataclass(frozen=True)
class Origin:
    """Where a dataset comes from.

    Args:
        record: what the manifest says about it; equal records mean equal content.
        files: path → bytes.
        bring: copies or downloads the files below a directory, given the staging area and its progress.
        hash_source: path → sha256, read at the source; None where only `bring` can tell.
    """

    record: dict[str, Any]
    files: dict[str, int]
    bring: Callable[[Path, Path, Progress], dict[str, Proof]]
    hash_source: Callable[[], dict[str, str]] | None = None


def origin_of(layout: Layout, source: dict[str, Any]) -> Origin:
    """Look at what a source has, before anything of it is copied.

    Args:
        source: as `tasks.pod.datasets.stage` takes it.
    """
    kind = source.get("kind")
    if kind == "folder":
        return _from_folder(source["path"])
    if kind == "volume":
        folder = layout.resolve(source["path"])
        return replace(_from_folder(str(folder)), record=_on_volume(layout, folder))
    if kind == "hub":
        return _from_hub(layout, source)
    if kind == "s3":
        return _from_s3(source)
    raise BadInputError(f"There is no kind of dataset source {kind!r}.", 'Known: "folder", "volume", "hub", "s3".')


def look(layout: Layout, source: dict[str, Any]) -> dict[str, Any]:
    """What staging from a folder would bring: "files" (their number), "bytes".

    Args:
        source: of kind "folder" or "volume", as `tasks.pod.datasets.stage` takes it.

    Raises:
        NotThereError, BadInputError: as `list_folder`.
    """
    files = origin_of(layout, source).files
    return {"files": len(files), "bytes": sum(files.values())}


def _from_folder(path: str) -> Origin:
    files = list_folder(path)
    return Origin(
        record={"kind": "folder", "path": str(Path(path).expanduser().resolve()), "fingerprint": fingerprint(files)},
        files={file.path: file.size for file in files},
        bring=lambda area, tree, progress: copy_folder(files, area, tree, progress),
        hash_source=lambda: {file.path: prove(file.source).sha256 for file in files},
    )


def _on_volume(layout: Layout, folder: Path) -> dict[str, Any]:
    return {"kind": "volume", "path": layout.relative(folder), "fingerprint": fingerprint(list_folder(str(folder)))}


def _from_hub(layout: Layout, source: dict[str, Any]) -> Origin:
    from tasks.pod.collect import collect

    asked = hub_source("dataset", source["repo"], source["commit"])
    given = source.get("files")
    if not given:
        from tasks.pod.resolve import resolve

        given = resolve(layout, {"repo_type": "dataset", "repo": asked.repo, "revision": asked.revision})["files"]
    files = [File.from_json(file) for file in given]
    return Origin(
        record={"kind": "hub", "repo": asked.repo, "commit": asked.revision},
        files={file.path: file.size for file in files},
        bring=lambda area, tree, progress: collect(layout, area, tree, asked, files, progress).proofs,
    )


def _from_s3(source: dict[str, Any]) -> Origin:
    from tasks.pod import buckets

    objects = buckets.list_objects(source)
    plain = {key: value for key, value in source.items() if key not in ("kind", "files")}
    versions = {found.path: found.version for found in objects if found.version}
    pinned = {"versions": versions} if versions else {}
    return Origin(
        record={"kind": "s3"} | plain | {"fingerprint": buckets.fingerprint(objects)} | pinned,
        files={found.path: found.size for found in objects},
        bring=lambda area, tree, progress: buckets.copy_objects(source, objects, area, tree, progress),
    )
