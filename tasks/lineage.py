"""The page of a run's family in the Prefect UI: one for all of them, whichever of their flows shows it."""

from typing import cast
from uuid import UUID

from prefect import get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import ArtifactCollectionFilter, ArtifactCollectionFilterKey

from blocks.clusters.port import Cluster
from tasks.errors import EXPECTED
from tasks.reports.family import Member, on_record
from tasks.reports.markdown import lineage_page
from tasks.runs.records import PlanRecord


class LineagePage:
    """A tree of runs with links from parents to forks and back, under the name of the first of them.

    Args:
        key: of the artifact; "" until it was shown.
        paged: the runs of the family that have a page of their own. Trials of a sweep have none.
    """

    def __init__(self, cluster: Cluster, plan: PlanRecord) -> None:
        self._cluster, self._plan = cluster, plan
        self._page: UUID | None = None
        self.key = ""
        self.paged: frozenset[str] = frozenset()

    def show(self) -> None:
        """Show it, or what has become of it since. It is no reason to fail where the cluster does not answer."""
        try:
            members = on_record(self._cluster, self._plan.volume, self._plan.run)
        except EXPECTED as error:
            get_run_logger().warning("run %s: its lineage can not be shown: %s", self._plan.run, error)
            return
        first = next(member.run for member in members if "/" not in member.run)  # what has one is no run
        key, text = f"{first}-lineage", f"{len(members)} runs" if len(members) > 1 else "no forks yet"
        self.paged = _with_pages(members) | {self._plan.run}
        page = lineage_page(members, self.paged)
        if self._page is None:
            self._page = cast(UUID, create_markdown_artifact(key=key, markdown=page, description=text))
        else:
            with get_client(sync_client=True) as client:
                client.update_artifact(self._page, ArtifactUpdate(data=page, description=text))
        self.key = key


def _with_pages(members: list[Member]) -> frozenset[str]:
    keys = [f"{member.run}-training" for member in members]
    asked = ArtifactCollectionFilter(key=ArtifactCollectionFilterKey(any_=keys))
    with get_client(sync_client=True) as client:
        found = client.read_latest_artifacts(artifact_filter=asked)
    return frozenset(str(artifact.key).removesuffix("-training") for artifact in found)
