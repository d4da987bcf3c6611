"""Makes the pictures of the Prefect UI in `docs/images` again.

`python -m tests.browser.screenshots`
"""

import os
import tempfile
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Locator, Page, expect, sync_playwright

from blocks.clusters.local.cluster import LocalCluster
from deployments.stack import PROJECT, Stack
from tasks.reports.sweep_board import board
from tasks.reports.sweep_page import drawn, read_curves, render_sweep
from tasks.sweeps.records import read_sweep
from tests.browser.chromium import launch
from tests.browser.forms import PREFIX, SLOW_MACHINE, RunForm, RunPage
from tests.conftest import Running

IMAGES = PROJECT / "docs" / "images"
UI = "v2"
_SETTLE = 2_000  # milliseconds, for transitions to end
_PATIENCE = 180  # seconds


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder), usual_ports=False)
        try:
            started = stack.up(print)
            cluster = stack.settings().cluster()
            assert isinstance(cluster, LocalCluster)
            with sync_playwright() as playwright:
                page = launch(playwright).new_page(viewport={"width": 1280, "height": 800})
                running = Running(stack, started.url, started.environment(), cluster)
                take(running, page)
                take_sweep(running, page)
        finally:
            stack.down(lambda text: None)


def take(running: Running, page: Page) -> None:
    site = running.url.removesuffix("/api")
    deployment = running.api("GET", "/deployments/name/finetune/local")
    assert isinstance(deployment, dict)

    form = RunForm(page, site, UI, deployment["id"])
    form.fill(name="harbour-1", set={"optim.lr": 0.003})
    save(page, "run-form", top=page.get_by_text("Parameters", exact=True))
    flow_run = form.submit()
    running.completed(flow_run)

    RunPage(page, site, UI, flow_run).expect_log("plan of run harbour-1")
    save(page, "flow-run", top=page.get_by_text("Beginning flow run"))

    open_artifact(running, page, flow_run, "harbour-1-training")
    expect(page.get_by_alt_text("loss by step")).to_be_visible(timeout=SLOW_MACHINE)
    save(page, "training", top=page.get_by_role("heading", name="Run harbour-1"))


def take_sweep(running: Running, page: Page) -> None:
    site = running.url.removesuffix("/api")
    deployment = running.api("GET", "/deployments/name/sweep/local")
    assert isinstance(deployment, dict)
    form = RunForm(page, site, UI, deployment["id"])
    form.fill(name="lr", set={"pace.step_seconds": 0.2, "ckpt.interval": 5})
    save(page, "sweep-form", top=page.get_by_text("Method (Optional)"))
    flow_run = form.submit()

    _until(
        lambda: (
            "running" in _text_of(running, flow_run, "lr-board") and "-r1" in _text_of(running, flow_run, "lr-board")
        )
    )
    open_artifact(running, page, flow_run, "lr-board")
    expect(page.get_by_text("Sweep", exact=False).first).to_be_visible(timeout=SLOW_MACHINE)
    save(page, "sweep-board")
    running.completed(flow_run)
    record, state = read_sweep(running.cluster, "research", "lr")
    found = board(record, state)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "lr.html"
        report.write_text(render_sweep(found, read_curves(running.cluster, record, drawn(found))), encoding="utf-8")
        page.goto(report.as_uri())
        save(page, "sweep", whole=True)


def open_artifact(running: Running, page: Page, flow_run: str, key: str) -> None:
    (found,) = _artifacts(running, flow_run, key)
    page.goto(f"{running.url.removesuffix('/api')}{PREFIX[UI]}/artifacts/artifact/{found['id']}")


def _artifacts(running: Running, flow_run: str, key: str) -> list[dict[str, Any]]:
    asked = {"artifacts": {"flow_run_id": {"any_": [flow_run]}, "key": {"any_": [key]}}}
    found = running.api("POST", "/artifacts/filter", asked)
    assert isinstance(found, list)
    return found


def _text_of(running: Running, flow_run: str, key: str) -> str:
    return "".join(str(artifact["data"]) for artifact in _artifacts(running, flow_run, key))


def _until(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def save(page: Page, name: str, top: Locator | None = None, *, whole: bool = False) -> None:
    """Take a picture, with what is to be seen at its top scrolled there; or of the whole page."""
    if top is not None:
        top.first.evaluate("element => element.scrollIntoView({block: 'start'})")
    page.wait_for_timeout(_SETTLE)
    path = IMAGES / f"{name}.png"
    shot = Image.open(BytesIO(page.screenshot(full_page=whole)))
    shot.quantize(64 if whole else 256).save(path, optimize=True)
    print(f"{os.path.relpath(path)}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
