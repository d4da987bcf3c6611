"""A saved local cluster: directories and processes of one machine."""

from pathlib import Path

from prefect.blocks.core import Block
from pydantic import Field

from blocks.clusters.local.cluster import LocalCluster as Directories
from blocks.clusters.port import Cluster


class LocalCluster(Block):
    """Directories for volumes and processes for jobs, on the machine of the worker."""

    _block_type_name = "Slipway local cluster"
    _block_type_slug = "local-cluster"
    _description = "Holds volumes as directories and runs jobs as processes, on one machine."

    root: str = Field(
        title="Root",
        description="Directory for volumes and jobs; a relative one is taken from the project.",
        json_schema_extra={"position": 0},
    )
    name: str = Field(default="local", title="Name", description="Shown in lists.", json_schema_extra={"position": 1})
    owner: str = Field(
        default="me", title="Owner", description="Whose volumes and runs.", json_schema_extra={"position": 2}
    )
    cpus: int | None = Field(
        default=None, gt=0, title="CPU slots", description="Empty: all cores.", json_schema_extra={"position": 3}
    )
    gpus: dict[str, int] = Field(
        default_factory=dict,
        title="GPU slots",
        description='GPU kind and count, such as {"h100": 2}.',
        json_schema_extra={"position": 4},
    )
    poll_seconds: float = Field(
        default=1, gt=0, title="Look every, s", description="While following a run.", json_schema_extra={"position": 5}
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
            poll_seconds=self.poll_seconds,
        )
