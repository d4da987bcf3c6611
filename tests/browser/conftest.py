"""A headless Chromium, and what the tests of the UI look things up with."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.conftest import Running

_QUIET = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The Chromium of the system, else the one that Playwright has installed."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    sandbox = () if os.geteuid() else ("--no-sandbox",)  # root has none
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=[*_QUIET, *sandbox])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    yield context.new_page()
    context.close()


@pytest.fixture(scope="session")
def site(running: Running) -> str:
    """The address of the UI."""
    return running.url.removesuffix("/api")


@pytest.fixture(scope="session")
def parent(running: Running) -> str:
    """A run that has ended, to fork or to look at: its flow run."""
    flow_run = running.run("finetune/local", name="parent", volume="forms", set={"max_steps": 20})
    assert running.wait(flow_run, "COMPLETED", "FAILED", "CRASHED")["type"] == "COMPLETED", running.log(flow_run)
    return flow_run


@pytest.fixture(scope="session")
def images() -> Path:
    return Path(__file__).resolve().parents[2] / "docs" / "images"
