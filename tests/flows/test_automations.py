"""Automations of slipway.toml on a real server: a real checkpoint appears, and what is to happen happens."""

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from blocks.automation_settings import AutomationSettings
from blocks.clusters.errors import UsageError
from blocks.clusters.job import JobState
from tasks.runs.launch import read_run
from tests.conftest import Running
from tests.flows.test_crashes import jobs_of, program_of, until

VOLUME = "triggered"
SHORT = {"max_steps": 20, "ckpt.interval": 5, "pace.step_seconds": 0.05}


def deploy(running: Running, **automations: AutomationSettings) -> tuple[list[str], list[str]]:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from deployments.automations import deploy as deploy_all

    settings = running.stack.settings().model_copy(update={"automations": automations})
    with temporary_settings({PREFECT_API_URL: running.url}):
        return deploy_all(settings)


@pytest.fixture
def clean(running: Running) -> Iterator[Running]:
    yield running
    deploy(running)


@pytest.fixture
def inbox() -> Iterator[tuple[str, list[bytes]]]:
    """The address of a server that notes what is posted to it."""
    posted: list[bytes] = []

    class Inbox(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Inbox)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", posted
    server.shutdown()


def emit_again(running: Running, event: dict[str, Any], identity: str) -> None:
    """The same event under another id, as a second follower that knows no better would send it."""
    body = {key: event[key] for key in ("event", "resource", "payload", "occurred", "related")} | {"id": identity}
    running.api("POST", "/events", [body])


def events_of(running: Running, run: str) -> list[dict[str, Any]]:
    asked = {
        "filter": {"event": {"name": ["slipway.checkpoint.completed"]}, "resource": {"id": [f"slipway.run.{run}"]}}
    }
    found = running.api("POST", "/events/filter", asked)
    assert isinstance(found, dict)
    return list(found["events"])


def forks(running: Running, parent: str) -> list[dict[str, Any]]:
    deployment = running.api("GET", "/deployments/name/fork/local")
    assert isinstance(deployment, dict)
    found = running.api("POST", "/flow_runs/filter", {"deployments": {"id": {"any_": [deployment["id"]]}}})
    assert isinstance(found, list)
    asked = {"volume": VOLUME, "run": parent}
    return [run for run in found if asked.items() <= run["parameters"].items()]


def test_a_checkpoint_that_appears_is_forked_once_however_often_its_event_comes(clean: Running) -> None:
    running = clean
    again = AutomationSettings(
        on="checkpoint", run="watched*", step=10, deployment="fork/local", parameters={"set": {"max_steps": 30}}
    )
    assert deploy(running, onward=again) == (["onward"], [])
    assert deploy(running, onward=again) == (["onward"], []), "twice is once"

    training = running.run("finetune/local", name="watched", volume=VOLUME, set=SHORT)
    fork = "watched-s10-onward"
    until(lambda: jobs_of(running.cluster, fork) == [JobState.COMPLETED], "the fork to be over")
    running.completed(training)

    source = read_run(running.cluster, VOLUME, fork).plan.resolved.source
    assert source is not None and (source.run, source.step) == ("watched", 10)
    (event,) = [e for e in events_of(running, "watched") if e["payload"]["step"] == 10]
    emit_again(running, event, "6f1c1c1e-0000-4a86-9b8e-2f6f6d0f5a11")
    until(lambda: len(forks(running, "watched")) == 2, "a second flow run")
    until(lambda: all(run["state_type"] == "COMPLETED" for run in forks(running, "watched")), "both to be over")
    assert jobs_of(running.cluster, fork) == [JobState.COMPLETED], "one fork"
    assert {run["name"] for run in forks(running, "watched")} == {f"fork {fork}"}


def test_another_deployment_gets_what_the_event_tells(clean: Running) -> None:
    running = clean
    given = {"volume": "judged-{{ event.payload.run }}-{{ event.payload.step }}", "size": "1Gi"}
    judge = AutomationSettings(on="checkpoint", run="judge", step=5, deployment="create-volume/local", parameters=given)
    deploy(running, evaluate=judge)

    running.completed(running.run("finetune/local", name="judge", volume=VOLUME, set={**SHORT, "max_steps": 5}))

    def made() -> set[str]:
        return {volume.name for volume in running.cluster.volumes.list()}

    until(lambda: "judged-judge-5" in made(), "the deployment to have run", seconds=120)


@pytest.mark.long
def test_what_a_trigger_forked_it_does_not_fork_again(clean: Running) -> None:
    running = clean
    training = running.run("finetune/local", name="chain", volume=VOLUME, set={**SHORT, "max_steps": 5})
    running.completed(training)
    asked = {"run": "chain", "step": "5", "volume": VOLUME, "trigger": "endless", "set": {"max_steps": 10}}
    running.completed(running.run("fork/local", **asked))
    assert jobs_of(running.cluster, "chain-s5-endless") == [JobState.COMPLETED]

    second = running.run("fork/local", **{**asked, "run": "chain-s5-endless", "step": "10", "set": {"max_steps": 15}})

    running.completed(second)
    assert running.state(second)["name"] == "Skipped"
    assert jobs_of(running.cluster, "chain-s5-endless-s10-endless") == []


def test_a_run_that_fails_is_told_through_a_notification_block(clean: Running, inbox: tuple[str, list[bytes]]) -> None:
    from prefect.blocks.notifications import CustomWebhookNotificationBlock
    from prefect.settings import PREFECT_API_URL, temporary_settings

    running, (url, posted) = clean, inbox
    with temporary_settings({PREFECT_API_URL: running.url}):
        block = CustomWebhookNotificationBlock(
            name="inbox", url=url, json_data={"text": "{{subject}} {{body}}"}, allow_private_urls=True
        )
        block.save("inbox", overwrite=True)
    kind = block.get_block_type_slug()
    deploy(running, tell=AutomationSettings(on="failed", notify=f"{kind}/inbox"))

    slow = {**SHORT, "max_steps": 4000, "pace.step_seconds": 0.3}
    flow_run = running.run("finetune/local", name="doomed", volume=VOLUME, set=slow)
    until(lambda: jobs_of(running.cluster, "doomed") == [JobState.RUNNING], "the run to train")
    program_of("doomed").kill()
    running.wait(flow_run, "FAILED", "COMPLETED")

    until(lambda: posted, "the notification")
    assert b"doomed" in posted[0] and b"slipway.run.failed" in posted[0], posted


def test_what_the_server_does_not_have_is_named_and_nothing_is_saved(clean: Running) -> None:
    with pytest.raises(UsageError, match="no deployment 'evaluate/local'"):
        deploy(clean, a=AutomationSettings(on="completed", deployment="evaluate/local"))
    with pytest.raises(UsageError, match="no notification block 'slack-webhook/team'"):
        deploy(clean, b=AutomationSettings(on="failed", notify="slack-webhook/team"))
    assert deploy(clean) == ([], [])
