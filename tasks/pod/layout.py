"""Where everything lies on a volume. The only place that knows."""

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tasks.pod.errors import BadInputError

OURS = ("hub", "runs", "holds", ".slipway")
"""Top-level directories that `put` refuses."""

_LONGEST_NAME, _LONGEST_PATH = 255, 3000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Layout:
    """A mounted volume.

    Args:
        root: where it is mounted: `/volume`, or the directory of a local volume.
    """

    root: Path

    @classmethod
    def here(cls) -> "Layout":
        """The volume of this process: `$SLIPWAY_VOLUME`, else `/volume`."""
        return cls(Path(os.environ.get("SLIPWAY_VOLUME", "/volume")))

    # what readers and trainers see

    @property
    def hub(self) -> Path:
        return self.root / "hub"

    def repo(self, repo_type: str, repo: str) -> Path:
        """A Hub repository in cache layout; `repo_type` is "model" or "dataset"."""
        return self.hub / f"{repo_type}s--{repo.replace('/', '--')}"

    def snapshot(self, repo_type: str, repo: str, commit: str) -> Path:
        return self.repo(repo_type, repo) / "snapshots" / commit

    @property
    def datasets(self) -> Path:
        return self.root / "datasets"

    def dataset(self, name: str, version: str) -> Path:
        return self.datasets / part("dataset name", name) / part("dataset version", version)

    def own_weights(self, name: str) -> Path:
        """Weights that people put there, staged from elsewhere, or made of a checkpoint."""
        return self.root / "models" / part("model name", name)

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    def run(self, run: str) -> Path:
        """The only directory that a run's trainer can write."""
        return self.runs / part("run", run)

    def real_run(self, run: str) -> Path:
        """The same, for what moves or removes things in it.

        Raises:
            BadInputError: it, or a directory on the way, is a link: what is in there belongs to somebody else.
        """
        home = self.run(run)
        if real(home) != real(self.root) / "runs" / run:
            raise BadInputError(f"runs/{run} is a link.", "Remove the link: a run keeps its files itself.")
        return home

    @property
    def holds(self) -> Path:
        return self.root / "holds"

    def hold(self, run: str) -> Path:
        """The source that the fork `run` holds: one step directory in here."""
        return self.holds / part("run", run)

    # ours alone

    @property
    def ours(self) -> Path:
        return self.root / ".slipway"

    def records(self, run: str) -> Path:
        """plan.json, attempts/<n>.json, attempts/<n>.end.json, …"""
        return self.ours / "runs" / part("run", run)

    @property
    def nodes(self) -> Path:
        """What the caches of nodes hold, as far as runs of this volume saw it."""
        return self.ours / "nodes"

    def node(self, node: str) -> Path:
        return self.nodes / f"{part('node', node)}.json"

    @property
    def sweeps(self) -> Path:
        return self.ours / "sweeps"

    def sweep(self, sweep: str) -> Path:
        """plan.json, log/<turn>.json, driver.json"""
        return self.sweeps / part("sweep", sweep)

    def snapshot_manifest(self, repo_type: str, repo: str, commit: str) -> Path:
        return self.ours / "snapshots" / f"{repo_type}s--{repo.replace('/', '--')}" / f"{commit}.json"

    def own_weights_record(self, name: str) -> Path:
        """Where those that are ours came from."""
        return self.ours / "weights" / f"{part('model name', name)}.json"

    def staging(self, identity: str) -> Path:
        """The private area of one staging identity (see `tasks.pod.staging`), kept until it has published."""
        return self.ours / "staging" / part("staging identity", identity)

    @property
    def trash(self) -> Path:
        """What is renamed away before it is removed, or set aside because it is torn."""
        return self.ours / "trash"

    # paths in records are relative to the volume

    def relative(self, path: Path) -> str:
        """A path below the volume, relative to it, with forward slashes."""
        return path.relative_to(self.root).as_posix()

    def resolve(self, path: str) -> Path:
        """A path given relative to the volume, or as `/volume/…`, on this mount.

        Raises:
            BadInputError: it leads outside (by `..` or by a link), or has control characters.
        """
        clean = volume_relative(path)
        found = self.root / clean
        if not real(found).is_relative_to(real(self.root)):
            raise BadInputError(f"{path!r} leads out of the volume through a link.", "Name a path on the volume.")
        return found


def real(path: Path) -> Path:
    """Where a path leads once every link is followed. Links in circles lead nowhere, where Path.resolve raises."""
    return Path(os.path.realpath(path))


def volume_relative(path: str) -> str:
    """Normalise a path on a volume: `/volume/a/b`, `/a/b` and `a/b` are all `a/b`; the root is `.`.

    Raises:
        BadInputError: `..` climbs above the root, or the path has control characters, is no text, or is too long.
    """
    if any(ord(c) < 32 or ord(c) == 127 for c in path):
        raise BadInputError(f"{path!r} has control characters.", "Name a path without them.")
    if any(0xD800 <= ord(c) <= 0xDFFF for c in path):
        raise BadInputError(f"{path!r} is not UTF-8.", "Name a path that is.")
    if len(path.encode()) > _LONGEST_PATH or any(len(piece.encode()) > _LONGEST_NAME for piece in path.split("/")):
        limits = f"{_LONGEST_NAME} bytes for a name, {_LONGEST_PATH} for a path"
        raise BadInputError(f"{path[:60]!r}… is too long: {limits}.", "Name a shorter one.")
    parts: list[str] = []
    for piece in PurePosixPath("/" + path).parts[1:]:
        if piece == "..":
            if not parts:
                raise BadInputError(f"{path!r} climbs above the root of the volume.", "Name a path on the volume.")
            parts.pop()
        elif piece != ".":
            parts.append(piece)
    if path.startswith("/") and parts[:1] == ["volume"]:
        parts = parts[1:]
    return "/".join(parts) or "."


def part(kind: str, name: str) -> str:
    """Return `name` if it can be one part of a path on a volume.

    Raises:
        BadInputError: it could lead elsewhere.
    """
    if len(name) > 255 or not _NAME.fullmatch(name):
        raise BadInputError(
            f"{name!r} can not be a {kind}.",
            "Use letters, digits, dots, hyphens and underscores, starting with a letter or digit.",
        )
    return name
