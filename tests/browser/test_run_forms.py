"""The Run forms of the Prefect UI, old and new, work as a newcomer would use them."""

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from blocks.clusters.job import JobState
from blocks.clusters.size import format_size
from tasks.runs.job import RUN_LABEL
from tasks.runs.launch import read_run
from tasks.sweeps.records import read_sweep
from tests.browser.forms import PREFIX, SLOW_MACHINE, RunForm, RunPage
from tests.conftest import PATIENCE_SECONDS, Running

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1200)]
VOLUME = "forms"
both = pytest.mark.parametrize("ui", ["v2", "v1"])


def deployment(running: Running, name: str) -> str:
    found = running.api("GET", f"/deployments/name/{name}")
    assert isinstance(found, dict)
    return str(found["id"])


def until(claim: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline, f"not after {seconds} s: {what}"
        time.sleep(0.1)


def jobs_of(running: Running, run: str) -> list[JobState]:
    return [job.state for job in running.cluster.jobs.find({RUN_LABEL: run})]


def artifact(running: Running, key: str) -> str:
    """The newest artifact of a key."""
    found = running.api("POST", "/artifacts/latest/filter", {"artifacts": {"key": {"any_": [key]}}})
    assert isinstance(found, list)
    return str(found[0]["latest_id"])


def leads_to(page: Page, name: str) -> str:
    link = page.get_by_role("link", name=name, exact=True).last
    expect(link).to_be_visible(timeout=SLOW_MACHINE)
    return str(link.evaluate("link => link.href"))


@both
def test_a_fine_tune_runs_with_the_values_typed_into_the_form(running: Running, page: Page, site: str, ui: str) -> None:
    form = RunForm(page, site, ui, deployment(running, "finetune/local"))

    form.fill(name=f"typed-{ui}", volume=VOLUME, set={"max_steps": 20, "optim.lr": 0.003, "pace.step_seconds": 0})
    flow_run = form.submit()

    running.completed(flow_run)
    config = read_run(running.cluster, VOLUME, f"typed-{ui}").plan.config
    assert (config["max_steps"], config["optim"]["lr"], config["model"]["name"]) == (20, 0.003, "slipway/tiny-lm")
    RunPage(page, site, ui, flow_run).expect_log(f"plan of run typed-{ui}: nothing is in the way")


@both
def test_a_staged_model_is_one_of_the_choices(running: Running, page: Page, site: str, ui: str, parent: str) -> None:
    staged = read_run(running.cluster, VOLUME, "parent").plan.resolved.weights.commit
    form = RunForm(page, site, ui, deployment(running, "finetune/local"))

    form.choose("model", f"slipway/tiny-lm@{staged}")
    form.fill(name=f"chosen-{ui}", volume=VOLUME, set={"max_steps": 10, "model.name": "org/none"})
    running.completed(form.submit())

    assert read_run(running.cluster, VOLUME, f"chosen-{ui}").plan.config["model"]["name"] == f"slipway/tiny-lm@{staged}"


@both
def test_a_model_that_is_no_choice_is_taken_as_well(
    running: Running, page: Page, site: str, ui: str, parent: str
) -> None:
    form = RunForm(page, site, ui, deployment(running, "finetune/local"))

    form.another("model")
    form.fill(model="/volume/models/later", name=f"another-{ui}", volume=VOLUME)
    flow_run = form.submit()

    running.wait(flow_run, "FAILED")
    running.logged(flow_run, "/volume/models/later")


def test_a_volume_is_created_in_the_new_ui_and_grown_in_the_old_one(running: Running, page: Page, site: str) -> None:
    for ui, flow, size in (("v2", "create-volume", "2Gi"), ("v1", "grow-volume", "3Gi")):
        form = RunForm(page, site, ui, deployment(running, f"{flow}/local"))
        form.fill(volume="made", size=size)
        running.completed(form.submit())
        assert format_size(running.cluster.volumes.get("made").size) == size


@both
def test_a_name_that_can_not_be_is_refused_by_the_form(running: Running, page: Page, site: str, ui: str) -> None:
    made = deployment(running, "finetune/local")
    asked = {"deployments": {"id": {"any_": [made]}}}
    before = running.api("POST", "/flow_runs/count", asked)
    form = RunForm(page, site, ui, made)

    form.fill(name="Not A Name")
    form.submit_in_vain()

    assert running.api("POST", "/flow_runs/count", asked) == before


@both
def test_the_fork_form_continues_a_run(running: Running, page: Page, site: str, ui: str, parent: str) -> None:
    form = RunForm(page, site, ui, deployment(running, "fork/local"))

    form.fill(run="parent", volume=VOLUME, name=f"forked-{ui}", set={"max_steps": 30})
    flow_run = form.submit()

    running.completed(flow_run)
    plan = read_run(running.cluster, VOLUME, f"forked-{ui}").plan
    assert plan.resolved.source is not None
    assert (plan.resolved.source.run, plan.resolved.source.step, plan.max_steps) == ("parent", 20, 30)

    own, family = artifact(running, f"forked-{ui}-training"), artifact(running, "parent-lineage")
    page.goto(f"{site}{PREFIX[ui]}/artifacts/artifact/{own}")
    assert leads_to(page, "parent") == f"{site}{PREFIX[ui]}/artifacts/key/parent-training"
    assert leads_to(page, "parent-lineage") == f"{site}{PREFIX[ui]}/artifacts/key/parent-lineage"
    page.goto(f"{site}{PREFIX[ui]}/artifacts/artifact/{family}")
    assert leads_to(page, f"forked-{ui}") == f"{site}{PREFIX[ui]}/artifacts/key/forked-{ui}-training"


@both
def test_the_sweep_form_searches_with_the_axes_that_it_shows(running: Running, page: Page, site: str, ui: str) -> None:
    form = RunForm(page, site, ui, deployment(running, "sweep/local"))

    form.fill(name=f"swept-{ui}", volume=VOLUME, set={"pace.step_seconds": 0})
    flow_run = form.submit()

    running.completed(flow_run)
    record, state = read_sweep(running.cluster, VOLUME, f"swept-{ui}")
    assert record.request.search.method == "halving" and state.trials == record.request.search.planned == 8
    assert all(4 <= node.start.point["data.batch_size"] <= 8 for node in state.nodes.values())

    page.goto(f"{site}{PREFIX[ui]}/artifacts/artifact/{artifact(running, f'swept-{ui}-report')}")
    for title in ("Curves", "What mattered", "Axis by axis"):
        picture = page.get_by_alt_text(title)
        expect(picture).to_be_visible(timeout=SLOW_MACHINE)
        assert picture.evaluate("picture => picture.decode().then(() => picture.naturalWidth)") > 100
    expect(page.get_by_text(f"slipway fork swept-{ui} --best")).to_be_visible()

    page.goto(f"{site}{PREFIX[ui]}/artifacts/artifact/{artifact(running, f'swept-{ui}-leaderboard')}")
    best = page.get_by_role("row").nth(1)
    expect(best).to_contain_text(state.ranked(1)[0].start.run, timeout=SLOW_MACHINE)
    expect(best.get_by_role("cell").first).to_have_text("1")


@both
def test_cancelling_in_the_ui_stops_the_job_and_the_record_says_why(
    running: Running, page: Page, site: str, ui: str
) -> None:
    run = f"cancelled-{ui}"
    form = RunForm(page, site, ui, deployment(running, "finetune/local"))
    form.fill(name=run, volume=VOLUME, set={"pace.step_seconds": 0.5, "max_steps": 4000})
    flow_run = form.submit()
    until(lambda: jobs_of(running, run) == [JobState.RUNNING], "the job to run")

    RunPage(page, site, ui, flow_run).cancel()

    running.wait(flow_run, "CANCELLED")
    until(lambda: jobs_of(running, run) == [JobState.STOPPED], "the job to stop")
    until(lambda: read_run(running.cluster, VOLUME, run).attempts[0].end, "the end on record")
    end = read_run(running.cluster, VOLUME, run).attempts[0].end
    assert end is not None and (end.state, end.reason) == ("stopped", "its flow run was cancelled in Prefect")


@both
def test_the_page_of_a_run_shows_its_loss_curve(running: Running, page: Page, site: str, ui: str, parent: str) -> None:
    asked = {"artifacts": {"flow_run_id": {"any_": [parent]}, "key": {"like_": "parent-training"}}}
    found = running.api("POST", "/artifacts/filter", asked)
    assert isinstance(found, list)

    page.goto(f"{site}{PREFIX[ui]}/artifacts/artifact/{found[0]['id']}")

    picture = page.get_by_alt_text("loss by step")
    expect(picture).to_be_visible(timeout=SLOW_MACHINE)
    assert picture.evaluate("picture => picture.decode().then(() => picture.naturalWidth)") > 100
    expect(page.get_by_text("completed, step 20 of 20")).to_be_visible()
