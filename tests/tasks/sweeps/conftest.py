"""Sweeps on a desk: planned, staged and driven as the flow does, without Prefect."""

from typing import Any

import pytest

from blocks.hub_access import HubAccess
from blocks.trainer_settings import Resources
from tasks.sweeps.ask import ask_sweep
from tasks.sweeps.axes import Axis
from tasks.sweeps.claim import claim_sweep
from tasks.sweeps.drive import Drive
from tasks.sweeps.log import State
from tasks.sweeps.plan import make_sweep_plan
from tasks.sweeps.records import SweepRecord
from tasks.sweeps.spec import Search, SweepRequest
from tests.tasks.conftest import Desk

LR = {"optim.lr": {"log_range": (0.0005, 0.05)}}


def search(method: str = "random", axes: dict[str, Any] | None = None, **more: Any) -> Search:
    given = LR if axes is None else axes
    fields = {"method": method, "axes": {k: Axis.model_validate(v) for k, v in given.items()}, **more}
    return Search.model_validate(fields)


class SweepDesk:
    """Asks for sweeps on one volume."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def request(self, name: str, how: Search, *, gpus: int = 0, **changes: Any) -> SweepRequest:
        base = self.desk.request(name, resources=Resources(cpus=0.1, gpus=gpus), **changes)
        return ask_sweep(name, how, base)

    def record(self, request: SweepRequest) -> SweepRecord:
        plan = make_sweep_plan(self.desk.cluster, self.desk.hub, request)
        assert not plan.blocked, plan.blocked
        staged = []
        for run in plan.runs:
            assert run.resolved is not None
            staged.append(self.desk.have(run))
        return claim_sweep(self.desk.cluster, plan, staged)

    def run(self, request: SweepRequest, notice: Any = lambda drive: None) -> State:
        return Drive(self.desk.cluster, self.record(request), notice).to_its_end()


@pytest.fixture
def sweeps(desk: Desk, hub_url: str) -> SweepDesk:
    assert isinstance(desk.hub, HubAccess)
    return SweepDesk(desk)
