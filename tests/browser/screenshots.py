"""Makes the pictures of the Prefect UI in `docs/images` again.

`python -m tests.browser.screenshots`
"""

import os
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page, expect, sync_playwright

from blocks.clusters.local.cluster import LocalCluster
from deployments.stack import PROJECT, Stack
from tests.browser.chromium import launch
from tests.browser.forms import PREFIX, SLOW_MACHINE, RunForm, RunPage
from tests.conftest import Running

IMAGES = PROJECT / "docs" / "images"
UI = "v2"
_SETTLE = 2_000  # milliseconds, for transitions to end


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder), usual_ports=False)
        try:
            started = stack.up(print)
            cluster = stack.settings().cluster()
            assert isinstance(cluster, LocalCluster)
            with sync_playwright() as playwright:
                page = launch(playwright).new_page(viewport={"width": 1280, "height": 800})
                take(Running(stack, started.url, started.environment(), cluster), page)
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

    asked = {"artifacts": {"flow_run_id": {"any_": [flow_run]}, "key": {"like_": "harbour-1-training"}}}
    found = running.api("POST", "/artifacts/filter", asked)
    assert isinstance(found, list)
    page.goto(f"{site}{PREFIX[UI]}/artifacts/artifact/{found[0]['id']}")
    expect(page.get_by_alt_text("loss by step")).to_be_visible(timeout=SLOW_MACHINE)
    save(page, "training")


def save(page: Page, name: str, top: Locator | None = None) -> None:
    """Take a picture, with what is to be seen at its top scrolled there."""
    if top is not None:
        top.first.evaluate("element => element.scrollIntoView({block: 'start'})")
    page.wait_for_timeout(_SETTLE)
    path = IMAGES / f"{name}.png"
    shot = Image.open(BytesIO(page.screenshot()))
    shot.quantize(256).save(path, optimize=True)
    print(f"{os.path.relpath(path)}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
