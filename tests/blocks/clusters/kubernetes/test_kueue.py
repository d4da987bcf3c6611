"""What a Workload of Kueue's says, in conditions of the kinds that its controller writes."""

from typing import Any

import pytest

from blocks.clusters.kubernetes.kueue import wait


def condition(kind: str, status: bool, message: str = "") -> dict[str, Any]:
    return {"type": kind, "status": str(status), "message": message, "reason": "Pending"}


RESERVED = condition("QuotaReserved", True, "Quota reserved in ClusterQueue research")
NO_ROOM = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100"


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({}, "Kueue has not looked at it yet"),
        ({"conditions": []}, "Kueue has not looked at it yet"),
        ({"conditions": [condition("QuotaReserved", False, NO_ROOM)]}, NO_ROOM),
        (
            {"conditions": [condition("QuotaReserved", False, "LocalQueue team\n doesn't exist.")]},
            "LocalQueue team doesn't exist",
        ),
        (
            {"conditions": [condition("Evicted", True, "Preempted to accommodate a workload")]},
            "Preempted to accommodate a workload",
        ),
        (
            {"conditions": [condition("Evicted", True, "Preempted."), condition("QuotaReserved", False, NO_ROOM)]},
            f"Preempted; {NO_ROOM}",
        ),
        (
            {"conditions": [condition("Evicted", True, "Preempted."), condition("QuotaReserved", False, "Preempted.")]},
            "Preempted",
        ),
        (
            {"conditions": [condition("Evicted", False, "Preempted."), condition("QuotaReserved", False, NO_ROOM)]},
            NO_ROOM,
        ),
        ({"conditions": [RESERVED]}, "its quota is reserved"),
        ({"conditions": [RESERVED, condition("Admitted", True)]}, ""),
        (
            {
                "conditions": [RESERVED, condition("Admitted", False)],
                "admissionChecks": [
                    {"name": "budget", "state": "Ready", "message": ""},
                    {"name": "nodes", "state": "Pending", "message": "Waiting for 8 nodes."},
                    {"name": "far", "state": "Retry"},
                ],
            },
            "its quota is reserved, and of its admission checks nodes is Pending: Waiting for 8 nodes.; far is Retry",
        ),
    ],
)
def test_what_it_waits_for_is_in_kueues_words(status: dict[str, Any], why: str) -> None:
    assert wait({"spec": {}, "status": status}) == why


def test_one_that_was_switched_off_is_said_to_be() -> None:
    assert "deactivated" in wait({"spec": {"active": False}, "status": {"conditions": [RESERVED]}})


def test_a_long_story_is_cut() -> None:
    said = wait(
        {"spec": {}, "status": {"conditions": [condition("QuotaReserved", False, "no room in flavor a, " * 100)]}}
    )
    assert len(said) == 300 and said.endswith("…")
