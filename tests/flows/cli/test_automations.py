"""`slipway automations`: what slipway.toml says of them, and what it can not say."""

import pytest

from tests.flows.cli.conftest import Slipway

AUTOMATION = """
[automations.onward]
on = "checkpoint"
run = "night*"
step = 60
deployment = "fork/local"
parameters = { set = { max_steps = 120 } }
"""


def furnish(slipway: Slipway, text: str) -> None:
    path = slipway.folder / "slipway.toml"
    path.write_text(path.read_text() + text)


def test_they_are_listed(slipway: Slipway) -> None:
    assert "There are none" in slipway("automations", "list").err
    furnish(slipway, AUTOMATION)
    assert "fork/local" in slipway("automations", "list").out
    assert slipway("automations", "list", "-o", "json").json["onward"]["step"] == 60


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("deployment =", "deploiment ="), ("deploiment is unknown", "did you mean deployment")),
        (('"checkpoint"', '"checkpiont"'), ("automations.onward.on",)),
        (('"checkpoint"', '"failed"'), ("step is for checkpoints",)),
        (('deployment = "fork/local"', ""), ("say one of deployment and notify",)),
    ],
)
def test_what_they_can_not_say_is_named(slipway: Slipway, change: tuple[str, str], words: tuple[str, ...]) -> None:
    furnish(slipway, AUTOMATION.replace(*change))
    slipway("automations", "list").refused(2, *words)


def test_saving_them_needs_a_server(slipway: Slipway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    slipway("automations", "deploy").refused(2, "no Prefect server", "127.0.0.1:9")
