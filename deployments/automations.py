"""Saves the automations of slipway.toml in Prefect, and removes those of ours that are no longer there."""

from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.events.actions import RunDeployment, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound

from blocks.automation_settings import AutomationSettings
from blocks.clusters.errors import UsageError
from blocks.settings import Settings
from tasks.events import CHECKPOINT_EVENT, RUN_EVENT, STAGED_EVENT, SWEEP_EVENT

PREFIX = "slipway: "
"""What the names of ours begin with."""

_EVENTS = {
    "checkpoint": (CHECKPOINT_EVENT, "run"),
    "model staged": (f"{STAGED_EVENT}.model", "model"),
    "dataset staged": (f"{STAGED_EVENT}.dataset", "dataset"),
    "sweep": (SWEEP_EVENT, "sweep"),
}
"""What happened → the event, and the kind of resource that it is about; the others are ends of runs."""

_SUBJECT = "Slipway: {{ event.event }}"
_BODY = "{% for key, value in event.payload.items() %}{{ key }}: {{ value }}\n{% endfor %}"


def deploy(settings: Settings) -> tuple[list[str], list[str]]:
    """Save every automation of the settings under its name; one that is there is replaced.

    Returns:
        The names of those that are there now, and of those that were removed.

    Raises:
        UsageError: one names a deployment or a block that the server does not have; nothing was changed.
    """
    with get_client(sync_client=True) as client:
        wanted = {f"{PREFIX}{name}": _automation(client, name, one) for name, one in settings.automations.items()}
        there = {a.name: a.id for a in _automations(client) if a.name.startswith(PREFIX)}
        for name, automation in wanted.items():
            if name in there:
                client.request("PUT", "/automations/{id}", path_params={"id": there[name]}, json=_json(automation))
            else:
                client.request("POST", "/automations/", json=_json(automation))
        gone = sorted(there.keys() - wanted.keys())
        for name in gone:
            client.request("DELETE", "/automations/{id}", path_params={"id": there[name]})
    return [name.removeprefix(PREFIX) for name in wanted], [name.removeprefix(PREFIX) for name in gone]


def _automation(client: SyncPrefectClient, name: str, asked: AutomationSettings) -> AutomationCore:
    event, kind = _EVENTS.get(asked.on, (f"{RUN_EVENT}.{asked.on}", "run"))
    match = {"prefect.resource.id": f"slipway.{kind}.{asked.run}"}
    if asked.volume is not None:
        match["slipway.volume"] = asked.volume
    if asked.step is not None:
        match["slipway.step"] = str(asked.step)
    action = _run(client, name, asked) if asked.deployment else _notification(client, name, asked)
    return AutomationCore(
        name=f"{PREFIX}{name}",
        description=f"From slipway.toml, [automations.{name}].",
        enabled=asked.enabled,
        trigger=EventTrigger.model_validate(
            {"expect": [event], "match": match, "posture": Posture.Reactive, "threshold": 1, "within": 0}
        ),
        actions=[action],
    )


def _run(client: SyncPrefectClient, name: str, asked: AutomationSettings) -> RunDeployment:
    assert asked.deployment is not None
    try:
        deployment = client.read_deployment_by_name(asked.deployment)
    except ObjectNotFound:
        raise UsageError(
            f"automations.{name}: there is no deployment {asked.deployment!r}.", "Deploy it: prefect deploy --all."
        ) from None
    given = dict(asked.parameters)
    if asked.deployment.startswith("fork/"):
        event = {key: "{{ event.payload.%s }}" % key for key in ("run", "step", "volume")}  # noqa: UP031 - braces
        given = {**(event if asked.on == "checkpoint" else {k: event[k] for k in ("run", "volume")}), **given}
        given.setdefault("trigger", name)
    parameters = {key: _template(value) for key, value in given.items()}
    return RunDeployment(deployment_id=deployment.id, parameters=parameters)


def _template(value: Any) -> Any:
    """Text with braces as Prefect renders it: to text, whatever it looks like."""
    if isinstance(value, str) and "{{" in value:
        return {"__prefect_kind": "jinja", "template": value}
    if isinstance(value, dict):
        return {key: _template(item) for key, item in value.items()}
    return value


def _notification(client: SyncPrefectClient, name: str, asked: AutomationSettings) -> SendNotification:
    assert asked.notify is not None
    kind, document = asked.notify.split("/")
    try:
        block = client.read_block_document_by_name(document, block_type_slug=kind)
    except ObjectNotFound:
        raise UsageError(
            f"automations.{name}: there is no notification block {asked.notify!r}.",
            "Make it in the Prefect UI under Blocks: its address is a secret, and is kept there.",
        ) from None
    return SendNotification(block_document_id=block.id, subject=_SUBJECT, body=_BODY)


class _Known:
    def __init__(self, name: str, identity: UUID) -> None:
        self.name, self.id = name, identity


def _automations(client: SyncPrefectClient) -> list[_Known]:
    found: list[_Known] = []
    while True:
        page = {"limit": 200, "offset": len(found)}
        answer = client.request("POST", "/automations/filter", json=page).json()
        found += [_Known(one["name"], UUID(one["id"])) for one in answer]
        if len(answer) < page["limit"]:
            return found


def _json(automation: AutomationCore) -> Any:
    return automation.model_dump(mode="json", exclude={"owner_resource"})  # which an update does not take
