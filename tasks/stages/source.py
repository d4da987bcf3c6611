"""Where a dataset comes from and what it is called on a volume. Pure."""

import re
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from blocks.clusters.errors import UsageError
from blocks.clusters.job import Frozen

_HUB = re.compile(r"hf://datasets/(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_MODEL = re.compile(r"(?P<repo>[\w.-]+(/[\w.-]+)?)(@(?P<revision>[\w./-]+))?")


class DatasetRequest(Frozen):
    """A dataset to stage as `datasets/<name>/<version>`.

    Args:
        name: its name on the volume.
        source: a folder, or `hf://datasets/ORG/NAME@REVISION`.
        version: None to name it by its content.
    """

    name: str = Field(
        title="Name",
        description="Its name on the volume: datasets/<name>.",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        json_schema_extra={"position": 0},
    )
    source: str = Field(
        title="Source",
        description="A folder on the cluster's machine, or hf://datasets/ORG/NAME@REVISION.",
        min_length=1,
        json_schema_extra={"position": 1},
    )
    version: str | None = Field(
        default=None,
        title="Version",
        description="Empty: named by its content.",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        json_schema_extra={"position": 2},
    )

    @field_validator("source")
    @classmethod
    def _known_source(cls, source: str) -> str:
        if "://" in source and not _HUB.fullmatch(source):
            raise ValueError(
                f"{source!r} is no source that can be staged: name a folder or hf://datasets/ORG/NAME@REVISION"
            )
        return source


class HubRef(Frozen):
    """A repository on a Hub at a revision (a branch, a tag or a commit)."""

    repo_type: str
    repo: str
    revision: str

    @property
    def pinned(self) -> bool:
        return _COMMIT.fullmatch(self.revision) is not None


def hub_dataset(source: str) -> HubRef | None:
    """The Hub repository that a dataset's source names; None for a folder."""
    match = _HUB.fullmatch(source)
    return HubRef(repo_type="dataset", repo=match["repo"], revision=match["revision"] or "main") if match else None


def hub_model(text: str) -> HubRef:
    """Read `ORG/NAME[@REVISION]`.

    Raises:
        UsageError: it is no such thing.
    """
    match = _MODEL.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is no model on a Hub.", "Write ORG/NAME or ORG/NAME@REVISION.")
    return HubRef(repo_type="model", repo=match["repo"], revision=match["revision"] or "main")


def folder_source(source: str) -> dict[str, Any]:
    """A folder as the staging program takes it: absolute, from where it was named."""
    return {"kind": "folder", "path": str(Path(source).expanduser().resolve())}
