"""What a Run form offers is what is staged, beside a field that takes any other model."""

import shutil
from typing import Any

import pytest
from prefect.utilities.schema_tools.validation import validate

from blocks.clusters.local.cluster import LocalCluster
from deployments.stack import DEMO
from flows.finetune import finetune
from flows.pipeline import pipeline
from flows.sweep import sweep
from tasks.choices import offering, staged_models
from tasks.pod.layout import Layout
from tests.tasks.conftest import Desk

FLOWS = {flow.name: flow for flow in (finetune, pipeline, sweep)}
PINNED = "org/name@63f05027c49fa94b2de29a8b2353c7da2e5040ba"
LATER = ("org/other", "org/other@main", "/volume/models/made later", "")


def accepts(schema: dict[str, Any], model: str) -> bool:
    only = {**schema, "properties": {"model": schema["properties"]["model"]}, "required": []}
    return not validate({"model": model}, only, raise_on_error=False)


@pytest.mark.parametrize("name", FLOWS)
def test_staged_models_are_choices_and_every_other_model_is_taken_as_well(name: str) -> None:
    schema = offering(FLOWS[name].parameters.model_dump(), [PINNED])

    staged, another = schema["properties"]["model"]["anyOf"]
    assert (staged["title"], staged["enum"]) == ("staged", ["", PINNED])
    assert another["title"] == "another" and "enum" not in another
    assert all(accepts(schema, model) for model in (PINNED, *LATER))
    assert not accepts(schema, "no model at all")
    assert schema["properties"]["model"]["description"]


def test_choices_are_added_to_those_before_or_take_their_place() -> None:
    plain = finetune.parameters.model_dump()
    offered = offering(offering(plain, [PINNED]), ["/volume/models/mine"])
    assert offered["properties"]["model"]["anyOf"][0]["enum"] == ["", "/volume/models/mine", PINNED]

    fewer = offering(offered, ["/volume/models/mine"], only=True)
    assert fewer["properties"]["model"]["anyOf"][0]["enum"] == ["", "/volume/models/mine"]

    assert offering(fewer, [], only=True) == offering(plain, []) == plain


def test_a_form_without_such_a_parameter_is_left_as_it_is() -> None:
    schema = {"type": "object", "properties": {"model": {"type": "string"}, "volume": {"type": "string"}}}
    assert offering(schema, [PINNED]) == schema
    assert offering({}, [PINNED]) == {}


def test_what_is_staged_is_named_as_configs_name_it(desk: Desk, cluster: LocalCluster) -> None:
    cluster.volumes.create("empty", 2**30)
    assert staged_models(cluster, "empty") == []
    commit = desk.record(desk.request("first")).resolved.weights.commit
    layout = Layout(cluster.volumes.path("v"))
    shutil.copytree(DEMO / "repos/models/slipway/tiny-lm", layout.own_weights("mine"))
    layout.own_weights("torn").mkdir()

    assert staged_models(cluster, "v") == ["/volume/models/mine", f"slipway/tiny-lm@{commit}"]
