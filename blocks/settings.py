"""A team's settings, `slipway.toml`: clusters, hubs, buckets and trainers. Free of Prefect.

The command line reads them; registration saves them as blocks.
"""

import difflib
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from blocks.automation_settings import AutomationSettings
from blocks.bucket_access import BucketAccess
from blocks.clusters.errors import UsageError
from blocks.clusters.kubernetes.settings import KubernetesSettings
from blocks.clusters.local.cluster import LocalCluster
from blocks.clusters.port import Cluster
from blocks.clusters.size import parse_size
from blocks.clusters.strict import Strict
from blocks.hub_access import HubAccess
from blocks.reasons import reason
from blocks.trainer_settings import TrainerSettings

FILE = "slipway.toml"
T = TypeVar("T")


class Section(Strict, BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LocalSettings(Section):
    """A cluster of directories and processes.

    Args:
        root: where it keeps them; a relative path is taken from the folder of slipway.toml.
        gpus: GPU kind → count.
        node_cache: where runs share copies of weights; a relative path is taken from the folder of slipway.toml.
        node_cache_size: its limit, such as "200Gi".
        poll_seconds: how often to look while following a run.
    """

    kind: Literal["local"] = "local"
    root: str = Field(min_length=1, pattern=r"^[^\x00]*$")
    owner: str = "me"
    cpus: int | None = Field(default=None, gt=0)
    gpus: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    node_cache: str | None = None
    node_cache_size: str = Field(default="100Gi", pattern=r"^[1-9][0-9]*(Mi|Gi|Ti)$")
    poll_seconds: float = Field(default=1, gt=0)


class KubernetesSection(KubernetesSettings):
    """One namespace of a Kubernetes cluster.

    Args:
        owner: the namespace.
    """

    kind: Literal["kubernetes"]
    owner: str


def _kind(section: Any) -> str | None:
    """A cluster that says nothing of its kind is a local one."""
    kind = section.get("kind", "local") if isinstance(section, dict) else getattr(section, "kind", None)
    return kind if kind in ("local", "kubernetes") else None


ClusterSection = Annotated[
    Annotated[LocalSettings, Tag("local")] | Annotated[KubernetesSection, Tag("kubernetes")],
    Discriminator(
        _kind, custom_error_type="kind", custom_error_message='the kind of a cluster is "local" or "kubernetes"'
    ),
]


class Settings(Section):
    """All of slipway.toml.

    Args:
        folder: where the file is: what relative paths are taken from.
        default_cluster, default_hub, default_trainer: which of each is used where none is named.
    """

    folder: Path = Field(exclude=True)
    default_cluster: str = "local"
    default_hub: str = "public"
    default_trainer: str = "tiny"
    clusters: dict[str, ClusterSection]
    hubs: dict[str, HubAccess]
    buckets: dict[str, BucketAccess] = Field(default_factory=dict)
    trainers: dict[str, TrainerSettings]
    automations: dict[str, AutomationSettings] = Field(default_factory=dict)

    def cluster(self, name: str | None = None, owner: str | None = None) -> Cluster:
        """Connect to a cluster.

        Args:
            name: None for the default one.
            owner: None for the settings' own.

        Raises:
            UsageError: there is no cluster of that name.
        """
        name = name or self.default_cluster
        found = pick("cluster", name, self.clusters)
        if isinstance(found, KubernetesSection):
            from blocks.clusters.kubernetes.cluster import KubernetesCluster

            return KubernetesCluster(self.kubernetes_settings(found), name=name, owner=owner or found.owner)
        try:
            root = self.folder / Path(found.root).expanduser()
        except RuntimeError as error:  # ~somebody who is not there
            raise UsageError(f"clusters.{name}.root: {error}", "Name a directory.") from None
        return LocalCluster(
            root,
            name=name,
            owner=owner or found.owner,
            cpus=found.cpus,
            gpus=found.gpus,
            node_cache=self.folder / Path(found.node_cache).expanduser() if found.node_cache else None,
            node_cache_bytes=parse_size(found.node_cache_size),
            poll_seconds=found.poll_seconds,
        )

    def kubernetes_settings(self, section: KubernetesSection) -> KubernetesSettings:
        """A cluster's settings with a relative kubeconfig taken from where slipway.toml is."""
        fields = section.model_dump(exclude={"kind", "owner"})
        if section.kubeconfig:
            fields["kubeconfig"] = str(self.folder / Path(section.kubeconfig).expanduser())
        return KubernetesSettings.model_validate(fields)

    def hub(self, name: str | None = None) -> HubAccess:
        """Raises: UsageError: there is no hub of that name."""
        return pick("hub", name or self.default_hub, self.hubs)

    def bucket(self, name: str) -> BucketAccess:
        """The bucket that `s3://NAME/…` means: one of the settings, else AWS's of that name."""
        return self.buckets[name] if name in self.buckets else BucketAccess(bucket=name)

    def trainer(self, name: str | None = None) -> TrainerSettings:
        """Raises: UsageError: there is no trainer of that name."""
        return pick("trainer", name or self.default_trainer, self.trainers)


def pick(kind: str, name: str, among: dict[str, T]) -> T:
    """The one of that name.

    Raises:
        UsageError: there is none; names the nearest, or all.
    """
    if name in among:
        return among[name]
    near = difflib.get_close_matches(name, among, 1)
    hint = f"Did you mean {near[0]!r}?" if near else f"{FILE} has: {', '.join(sorted(among)) or 'none'}."
    raise UsageError(f"There is no {kind} {name!r} in the settings.", hint)


def read_settings(start: Path | None = None) -> Settings:
    """Settings of the nearest slipway.toml from `start` upwards; without one, a local cluster in `~/.slipway`.

    Args:
        start: None for the current directory.

    Raises:
        UsageError: the file is malformed, or has a key or value that it can not have.
    """
    if named := os.environ.get("SLIPWAY_SETTINGS"):
        return load_settings(Path(named))
    for folder in ((here := (start or Path.cwd()).resolve()), *here.parents):
        if os.path.lexists(folder / FILE):  # also one that is no file: to pass it over would be to use others
            return load_settings(folder / FILE)
    return _settings({}, Path.home(), "the built-in settings")


def load_settings(path: Path) -> Settings:
    """Raises: UsageError: it is not there, is malformed, or has a key or value that it can not have."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UsageError(f"{path} is no file.", "Name a slipway.toml that is one.")  # a pipe to nobody would wait
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UsageError(f"There are no settings at {path}.", "Name a slipway.toml that is there.") from None
    except OSError as error:
        raise UsageError(f"{path} can not be read: {error.strerror}.", "Name a slipway.toml that can.") from None
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply.", "Mend that place.") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        what = f"{path} is not UTF-8: line {line} has byte 0x{error.object[error.start]:02x}."
        raise UsageError(what, "Save it as UTF-8.") from None
    except ValueError as error:  # no TOML, a number of thousands of digits
        raise UsageError(f"{path} is no TOML: {error}.", "Mend that place.") from None
    return _settings(content, path.resolve().parent, str(path))


def _settings(content: dict[str, Any], folder: Path, source: str) -> Settings:
    content.setdefault("clusters", {"local": {"root": ".slipway/local"}})
    content.setdefault("hubs", {"public": {}})
    content.setdefault("trainers", {"tiny": {"kind": "tiny"}})
    buckets = content.get("buckets")
    for name, bucket in buckets.items() if isinstance(buckets, dict) else ():
        if isinstance(bucket, dict):
            bucket.setdefault("bucket", name)
    if "folder" in content:
        raise UsageError(f"{source}: the key folder is unknown.", "Remove that key.")
    try:
        return Settings(folder=folder, **content)
    except ValidationError as error:
        raise UsageError(f"{source}: {_explain(error)}", "Mend that key.") from None


_MODELS = (Settings, LocalSettings, KubernetesSection, HubAccess, BucketAccess, TrainerSettings, AutomationSettings)


def _explain(error: ValidationError) -> str:
    """The first problem in one sentence; an unknown key with the nearest known one."""
    first = error.errors()[0]
    where = [part for n, part in enumerate(first["loc"]) if n != 2 or first["loc"][0] != "clusters"]  # 2: the kind
    key = ".".join(map(str, where))
    if first["type"] != "extra_forbidden":
        return f"{key}: {reason(first)}."
    known = {name for model in _MODELS for name in model.model_fields if name != "folder"}
    near = difflib.get_close_matches(str(first["loc"][-1]), known, 1)
    return f"the key {key} is unknown{f'; did you mean {near[0]}?' if near else '.'}"
