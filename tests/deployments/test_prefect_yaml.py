"""prefect.yaml says what the flows can take: a wrong parameter would only show when a nightly run starts, at two."""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from prefect import Flow
from prefect.utilities.schema_tools.validation import validate

from deployments.demo.assets import DATASET, REPO
from tasks.pod.trainers.table import adapter

PROJECT = Path(__file__).resolve().parents[2]
FILE = yaml.safe_load((PROJECT / "prefect.yaml").read_text())
DEPLOYMENTS: list[dict[str, Any]] = FILE["deployments"]
OURS = ("volume", "volume_size")


def flow_of(deployment: dict[str, Any]) -> Flow[..., Any]:
    path, function = deployment["entrypoint"].split(":")
    flow = getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), function)
    assert isinstance(flow, Flow)
    return flow


def is_block(value: object) -> bool:
    return isinstance(value, dict) and "$ref" in value


def _parts(field: dict[str, Any]) -> list[dict[str, Any]]:
    return [field, *field.get("allOf", ()), *field.get("anyOf", ())]


def _explained(prefix: str, fields: dict[str, Any], models: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The dotted name and the explanation of each field; one that is a model may be explained by that."""
    for name, field in fields.items():
        inner = [models[ref["$ref"].rpartition("/")[2]] for ref in _parts(field) if "$ref" in ref]
        yield prefix + name, field.get("description") or "".join(model.get("description", "") for model in inner)
        for model in inner:
            yield from _explained(f"{prefix}{name}.", model.get("properties", {}), models)


def entrypoint(deployment: dict[str, Any]) -> str:
    return deployment["entrypoint"]


each = pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=entrypoint)


def test_every_flow_is_deployed_once() -> None:
    names = [f"{flow_of(d).name}/{d['name']}" for d in DEPLOYMENTS]
    defined = {
        f"{value.name}/local"
        for path in sorted((PROJECT / "flows").glob("*.py"))
        for value in vars(importlib.import_module(f"flows.{path.stem}")).values()
        if isinstance(value, Flow)
    }
    assert sorted(names) == sorted(defined)


@each
def test_its_parameters_are_the_flows(deployment: dict[str, Any]) -> None:
    taken = inspect.signature(flow_of(deployment).fn).parameters
    required = {name for name, parameter in taken.items() if parameter.default is parameter.empty}
    assert set(deployment["parameters"]) <= set(taken), "unknown"
    assert required <= set(deployment["parameters"]), "missing"


@each
def test_its_values_are_ones_that_the_run_form_accepts(deployment: dict[str, Any]) -> None:
    schema = flow_of(deployment).parameters.model_dump()
    values = {name: value for name, value in deployment["parameters"].items() if not is_block(value)}
    schema["properties"] = {name: schema["properties"][name] for name in values}
    schema["required"] = [name for name in schema.get("required", []) if name in values]
    validate(values, schema, raise_on_error=True)


@each
def test_every_field_of_its_form_is_explained(deployment: dict[str, Any]) -> None:
    schema = flow_of(deployment).parameters.model_dump()
    texts = dict(_explained("", schema["properties"], schema.get("definitions", {})))
    assert [name for name, text in texts.items() if not text] == []
    # the old UI reads them as Markdown, where what is between two asterisks is set in italics, without them
    assert [name for name, text in texts.items() if text.count("*") > 1] == []


@each
def test_its_blocks_are_ones_that_registration_saves(deployment: dict[str, Any]) -> None:
    # from slipway.toml, and the demo's Hub, which `make up` adds
    known = {"local-cluster/local", "trainer/tiny", "hugging-face-hub/demo", "hugging-face-hub/public"}
    named = {value["$ref"]["block_document_slug"] for value in deployment["parameters"].values() if is_block(value)}
    assert named and named <= known


@each
def test_it_can_be_found_and_its_limit_is_the_pools(deployment: dict[str, Any]) -> None:
    assert deployment["tags"] == ["slipway"]
    assert deployment["work_pool"] == {"name": "local"}
    assert deployment["description"].endswith(".")
    # a deployment's own limit is a lease of its process: Prefect ends the retry of a killed one over it
    assert "concurrency_limit" not in deployment


@each
def test_its_schedules_wait_for_a_person_to_switch_them_on(deployment: dict[str, Any]) -> None:
    for schedule in deployment.get("schedules", []):
        assert schedule["active"] is False
        assert ZoneInfo(schedule["timezone"])
        assert len(schedule["cron"].split()) == 5
        assert schedule["slug"], "without one, a second `prefect deploy` adds a second schedule"
        assert set(schedule.get("parameters", {})) <= set(deployment["parameters"])


def test_the_main_job_runs_at_night() -> None:
    (pipeline,) = [d for d in DEPLOYMENTS if flow_of(d).name == "pipeline"]
    assert [schedule["slug"] for schedule in pipeline["schedules"]] == ["nightly"]


def test_the_config_is_the_demos() -> None:
    tiny = adapter("tiny")
    written = tiny.parse((PROJECT / "deployments" / "demo" / "finetune.toml").read_text())
    configs = [d["parameters"]["config"] for d in DEPLOYMENTS if "config" in d["parameters"]]
    assert len(configs) == 3
    for text in configs:
        config = tiny.parse(text)
        assert tiny.problems(config) == []
        assert config.pop("pace") == {"step_seconds": 0.05}, "slow enough to be watched"
        assert config == {key: value for key, value in written.items() if key not in (*OURS, "pace")}


def test_volume_and_dataset_are_the_demos() -> None:
    for deployment in DEPLOYMENTS:
        given = deployment["parameters"]
        assert given["volume"] == ("" if "reconcile" in deployment["entrypoint"] else "research")
        assert given.get("dataset") in (None, {"name": DATASET, "source": ".slipway/demo/harbour"})
        assert given.get("model") in (None, REPO)
