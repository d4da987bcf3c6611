"""A browser, and what the tests of the UI look things up with."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.chromium import launch
from tests.browser.forms import SLOW_MACHINE
from tests.conftest import Running


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(SLOW_MACHINE)
    expect.set_options(timeout=SLOW_MACHINE)
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
    running.completed(flow_run)
    return flow_run
