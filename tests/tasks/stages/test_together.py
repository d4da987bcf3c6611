"""Many who ask for the same at once: one job, which all of them wait for."""

from concurrent.futures import ThreadPoolExecutor

from tasks.runs.records import Weights
from tasks.stages.resolve import resolve
from tasks.stages.source import HubRef
from tasks.stages.staged import stage_snapshot
from tasks.stages.volume import ensure_volume
from tests.tasks.conftest import Desk


def test_ten_who_ask_for_a_snapshot_at_once_share_one_job(desk: Desk) -> None:
    ensure_volume(desk.cluster, "v", 2**30)
    ref = HubRef(repo_type="model", repo="slipway/tiny-lm", revision="main")
    snapshot = resolve(desk.cluster, desk.hub, "v", ref)

    def ask(_: int) -> Weights:
        return stage_snapshot(desk.cluster, desk.hub, "v", snapshot, lambda note: None)

    with ThreadPoolExecutor(10) as pool:
        staged = list(pool.map(ask, range(10)))

    assert {weights.path for weights in staged} == {snapshot.path}
    (job,) = desk.cluster.jobs.find({})
    assert "tiny-lm" in job.name
