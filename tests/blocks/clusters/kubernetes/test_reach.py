"""From which nodes a persistent volume can be mounted, as the scheduler reads its node affinity."""

from typing import Any

import pytest

from blocks.clusters.kubernetes.reach import reaches

ZONE, GPUS = "topology.kubernetes.io/zone", "gpus"


def source(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}}}


def rule(operator: str, *values: str, key: str = ZONE) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


@pytest.mark.parametrize(
    ("terms", "reached"),
    [
        ([rule("In", "a")], True),
        ([rule("In", "b", "c")], False),
        ([rule("In", "b"), rule("In", "a")], True),
        ([rule("NotIn", "a")], False),
        ([rule("NotIn", "x", key="absent")], True),
        ([rule("Exists")], True),
        ([rule("Exists", key="absent")], False),
        ([rule("DoesNotExist", key="absent")], True),
        ([rule("Gt", "3", key=GPUS)], True),
        ([rule("Lt", "3", key=GPUS)], False),
        ([rule("Gt", "3", key="absent")], False),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}], True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}], False),
        ([{**rule("In", "a"), "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}], False),
        ([{}], False),
    ],
)
def test_a_node_reaches_a_volume_if_one_term_holds_whole(terms: list[dict[str, Any]], reached: bool) -> None:
    assert reaches(source(*terms), {ZONE: "a", GPUS: "8"}, "n1") is reached


def test_a_volume_without_affinity_is_reached_from_everywhere() -> None:
    assert reaches({"spec": {}}, {}, "n1")
