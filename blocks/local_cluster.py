"""A saved local cluster: directories and processes of one machine."""

from pathlib import Path

from prefect.blocks.core import Block
from pydantic import Field

from blocks.clusters.local.cluster import LocalCluster as Directories
from blocks.clusters.port import Cluster
from blocks.clusters.size import parse_size
from blocks.clusters.strict import Strict


class LocalCluster(Strict, Block):
    """Directories for volumes and processes for jobs, on the machine of the worker."""

    _block_type_name = "Slipway local cluster"
    _block_type_slug = "local-cluster"
    _description = "Holds volumes as directories and runs jobs as processes, on one machine."

    root: str = Field(
        title="Root",
        description="Directory for volumes and jobs, such as /data/slipway. A relative one is taken from the project.",
        json_schema_extra={"position": 0},
    )
    name: str = Field(
        default="local", title="Name", description="What lists and messages call it.", json_schema_extra={"position": 1}
    )
    owner: str = Field(
        default="me",
        title="Owner",
        description="The team or person whose volumes and runs they are.",
        json_schema_extra={"position": 2},
    )
    cpus: int | None = Field(
        default=None,
        gt=0,
        title="CPU slots",
        description="Jobs that ask for more than is free wait. Empty: all cores.",
        json_schema_extra={"position": 3},
    )
    gpus: dict[str, int] = Field(
        default_factory=dict,
        title="GPU slots",
        description='GPUs of the machine by kind, such as {"h100": 2}; {} for none. Jobs that ask for more wait.',
        json_schema_extra={"position": 4},
    )
    node_cache: str | None = Field(
        default=None,
        title="Node cache",
        description="Directory on a fast disk where runs share copies of weights. Empty: none.",
        json_schema_extra={"position": 6},
    )
    node_cache_size: str = Field(
        default="100Gi",
        pattern=r"^[1-9][0-9]*(Mi|Gi|Ti)$",
        title="Size of the node cache",
        description="What is least recently used goes first; what a run uses stays.",
        json_schema_extra={"position": 7},
    )
    poll_seconds: float = Field(
        default=1,
        gt=0,
        title="Look every … seconds",
        description="How often a run is looked at.",
        json_schema_extra={"position": 5},
    )

    def connect(self) -> Cluster:
        """The cluster that this block describes."""
        project = Path(__file__).resolve().parent.parent
        return Directories(
            project / self.root,
            name=self.name,
            owner=self.owner,
            cpus=self.cpus,
            gpus=self.gpus,
            node_cache=project / Path(self.node_cache).expanduser() if self.node_cache else None,
            node_cache_bytes=parse_size(self.node_cache_size),
            poll_seconds=self.poll_seconds,
        )
