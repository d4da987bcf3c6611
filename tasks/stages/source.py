"""Where a model, weights or a dataset comes from and what it is called on a volume. Pure."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, field_validator
from pydantic.json_schema import SkipJsonSchema

from blocks.bucket_access import BucketAccess
from blocks.clusters.errors import UsageError
from blocks.clusters.job import Frozen
from tasks.pod.layout import volume_relative

_HUB = re.compile(r"hf://datasets/(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?")
_S3 = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(/(?P<prefix>[^\x00-\x1f\x7f]*))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_MODEL = re.compile(r"(?P<repo>[\w.-]+(/[\w.-]+)?)(@(?P<revision>[\w./-]+))?")


_VERSION = "[A-Za-z0-9][A-Za-z0-9._-]*"
_Version = Annotated[
    str | None,
    Field(pattern=f"^{_VERSION}$"),
    BeforeValidator(lambda text: text or None),  # the Run form's word for nothing is ""
    WithJsonSchema({"type": "string", "pattern": f"^({_VERSION})?$"}),
]


_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


class SourceRequest(Frozen):
    """Files to stage that are on no model hub."""

    name: str
    source: str

    bucket: SkipJsonSchema[BucketAccess | None] = None
    """How to reach the bucket of an s3:// source: whoever asks looks it up, nobody types it."""


class WeightsToStage(SourceRequest):
    """Weights in Hugging Face format to stage; they lie at models/NAME on the volume."""

    model_config = ConfigDict(title="Weights of your own")

    name: str = Field(
        title="Name",
        description="What they are called on the volume; the config then says /volume/models/NAME.",
        pattern=_NAME,
        json_schema_extra={"position": 0},
    )
    source: str = Field(
        title="Source",
        description="A folder on the machine of the worker, s3://BUCKET/PREFIX, or a folder on the volume: "
        "/volume/PATH.",
        min_length=1,
        json_schema_extra={"position": 1},
    )

    @field_validator("source")
    @classmethod
    def _known_source(cls, source: str) -> str:
        if "://" in source and not _S3.fullmatch(source):
            raise ValueError(
                f"{source!r} is no source of weights: name a folder or s3://BUCKET/PREFIX; `slipway stage model` has "
                "those of a Hub"
            )
        return source


class DatasetRequest(SourceRequest):
    """A dataset to stage; it lies at datasets/NAME/VERSION on the volume."""

    model_config = ConfigDict(title="Dataset")

    name: str = Field(
        title="Name",
        description="What it is called on the volume, and in the config: datasets/NAME.",
        pattern=_NAME,
        json_schema_extra={"position": 0},
    )
    source: str = Field(
        title="Source",
        description="A folder on the machine of the worker, s3://BUCKET/PREFIX, hf://datasets/ORG/NAME@REVISION, or "
        "a folder on the volume: /volume/PATH.",
        min_length=1,
        json_schema_extra={"position": 1},
    )
    version: _Version = Field(
        default=None,
        title="Version",
        description="Left empty: named by its content, so that the same data is the same version.",
        json_schema_extra={"position": 2, "default": ""},
    )

    @field_validator("source")
    @classmethod
    def _known_source(cls, source: str) -> str:
        if "://" in source and not _HUB.fullmatch(source) and not _S3.fullmatch(source):
            raise ValueError(
                f"{source!r} is no source that can be staged: name a folder, s3://BUCKET/PREFIX or "
                "hf://datasets/ORG/NAME@REVISION"
            )
        return source


class HubRef(Frozen):
    """A repository on a Hub at a revision (a branch, a tag or a commit).

    Args:
        allow, ignore: patterns, where not all of its files are wanted.
    """

    repo_type: str
    repo: str
    revision: str
    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @property
    def pinned(self) -> bool:
        return _COMMIT.fullmatch(self.revision) is not None


def hub_dataset(source: str) -> HubRef | None:
    """The Hub repository that a dataset's source names; None for a folder."""
    match = _HUB.fullmatch(source)
    return HubRef(repo_type="dataset", repo=match["repo"], revision=match["revision"] or "main") if match else None


def bucket_of(source: str) -> tuple[str, str] | None:
    """The name and the prefix of an s3:// source; None for another one."""
    match = _S3.fullmatch(source)
    return (match["bucket"], match["prefix"] or "") if match else None


def s3_source(asked: SourceRequest) -> tuple[BucketAccess, dict[str, Any]] | None:
    """An s3:// source as the staging program takes it, and what its job needs for it."""
    named = bucket_of(asked.source)
    if named is None:
        return None
    access = asked.bucket or BucketAccess(bucket=named[0])
    return access, access.at(named[1])


def hub_model(text: str, allow: Sequence[str] = (), ignore: Sequence[str] = ()) -> HubRef:
    """Read `ORG/NAME[@REVISION]`.

    Args:
        allow, ignore: patterns, where not all of its files are wanted.

    Raises:
        UsageError: it is no such thing.
    """
    match = _MODEL.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is no model on a Hub.", "Write ORG/NAME or ORG/NAME@REVISION.")
    revision = match["revision"] or "main"
    return HubRef(repo_type="model", repo=match["repo"], revision=revision, allow=tuple(allow), ignore=tuple(ignore))


def folder_source(source: str) -> dict[str, Any]:
    """A folder as the staging program takes it: on the volume, or absolute, from where it was named."""
    if source == "/volume" or source.startswith("/volume/"):
        return {"kind": "volume", "path": volume_relative(source)}
    return {"kind": "folder", "path": str(Path(source).expanduser().resolve())}
