"""Waiting for a checkpoint: as soon as it is complete, and never longer than the run lives."""

import pytest

from blocks.clusters.errors import NotFoundError
from tasks.runs.launch import stop
from tasks.runs.wait import NoCheckpointError, wait_for_checkpoint
from tests.tasks.conftest import Desk


def test_it_returns_while_the_run_goes_on_and_fails_clearly_when_it_ends_without_one(desk: Desk) -> None:
    with pytest.raises(NotFoundError):
        desk.record(desk.request("made"))
        wait_for_checkpoint(desk.cluster, desk.volume, "other", 4)
    with pytest.raises(NoCheckpointError, match=r"is still planned .* at or above step 4; it has none"):
        wait_for_checkpoint(desk.cluster, desk.volume, "made", 4, timeout_seconds=0)

    desk.launch(desk.request("long", pace__step_seconds=0.2, max_steps=4000))
    found = wait_for_checkpoint(desk.cluster, desk.volume, "long", 3)
    assert (found.step, found.path) == (4, "checkpoints/step_4")
    assert wait_for_checkpoint(desk.cluster, desk.volume, "long", 4) == found

    stop(desk.cluster, desk.volume, "long", reason="stopped by hand")
    with pytest.raises(
        NoCheckpointError, match=r"ended as stopped \(stopped by hand\) without .* step 4000; its newest"
    ):
        wait_for_checkpoint(desk.cluster, desk.volume, "long", 4000)
    assert wait_for_checkpoint(desk.cluster, desk.volume, "long", 2) == found
