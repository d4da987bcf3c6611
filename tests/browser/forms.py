"""Prefect's Run form and flow run page as a person uses them, in both of its UIs: the old one (V1) and the new (V2)."""

import json
import re
from http import HTTPStatus
from typing import Any

from playwright.sync_api import Locator, Page, Response, expect

SLOW_MACHINE = 60_000  # milliseconds
PREFIX = {"v1": "", "v2": "/v2"}


class RunForm:
    """The Run form of a deployment.

    Args:
        site: address of the server, without `/api`.
        ui: "v1" or "v2".
    """

    def __init__(self, page: Page, site: str, ui: str, deployment_id: str) -> None:
        self._page = page
        page.goto(f"{site}{PREFIX[ui]}/deployments/deployment/{deployment_id}/run")
        expect(self._submit).to_be_enabled(timeout=SLOW_MACHINE)

    def fill(self, **values: Any) -> None:
        """Type into the fields of these parameters; objects as JSON."""
        for name, value in values.items():
            field = self.field(name)
            if field.get_attribute("contenteditable") is None:
                field.fill(value if isinstance(value, str) else json.dumps(value))
            else:  # an editor, whose text `fill` would only add to
                field.click()
                field.press("ControlOrMeta+A")
                self._page.keyboard.insert_text(json.dumps(value))

    def choose(self, name: str, choice: str) -> None:
        """Take one of those that a parameter's field offers, in the tab that it opens with."""
        named = f"normalize-space(.)='{name}' or starts-with(normalize-space(.), '{name} (')"
        box = "button[@aria-haspopup='listbox' or contains(@class, 'p-select-button')]"
        field = self._page.locator(f"xpath=//label[{named}]/following::{box}[1][preceding::label[1][{named}]]")
        if field.get_attribute("aria-haspopup") is None:  # the old UI's opens for keys where there is no screen
            field.press("ArrowDown")
        else:
            field.click()
        self._page.get_by_text(choice, exact=True).last.click()
        expect(field).to_contain_text(choice)

    def another(self, name: str) -> None:
        """Turn to the tab in which anything can be typed."""
        named = f"normalize-space(.)='{name}' or starts-with(normalize-space(.), '{name} (')"
        tab = "*[self::button or self::label or self::span][normalize-space(.)='another']"
        self._page.locator(f"xpath=//label[{named}]/following::{tab}[1]").click()

    def field(self, name: str) -> Locator:
        """The box to type into below a parameter's label, and before the next one's: editors come late."""
        named = f"normalize-space(.)='{name}' or starts-with(normalize-space(.), '{name} (')"
        box = "*[self::textarea or @contenteditable='true']"
        return self._page.locator(f"xpath=//label[{named}]/following::{box}[1][preceding::label[1][{named}]]")

    def submit(self) -> str:
        """Press Submit (again where the server is too busy) and return the id of the flow run that this makes."""
        for _ in range(5):
            with self._page.expect_response(_creates, timeout=SLOW_MACHINE) as answer:
                self._submit.click()
            if answer.value.status != HTTPStatus.SERVICE_UNAVAILABLE:
                break
        created = answer.value.json()
        assert answer.value.ok, created
        return str(created["id"])

    def submit_in_vain(self) -> None:
        """Press Submit and see the form say that a value does not match."""
        self._submit.click()
        expect(self._page.get_by_text(re.compile("does not match")).first).to_be_visible(timeout=SLOW_MACHINE)

    @property
    def _submit(self) -> Locator:
        return self._page.get_by_role("button", name="Submit", exact=True)


class RunPage:
    """The page of a flow run."""

    def __init__(self, page: Page, site: str, ui: str, flow_run: str) -> None:
        self._page, self._ui = page, ui
        page.goto(f"{site}{PREFIX[ui]}/runs/flow-run/{flow_run}")

    def expect_log(self, text: str) -> None:
        expect(self._page.get_by_text(text).first).to_be_visible(timeout=SLOW_MACHINE)

    def cancel(self) -> None:
        if self._ui == "v1":
            self._page.get_by_role("button", name="Cancel", exact=True).click(timeout=SLOW_MACHINE)
            self._page.get_by_role("button", name="Confirm", exact=True).click()
            return
        self._page.locator("button[aria-haspopup=menu]").first.click(timeout=SLOW_MACHINE)
        self._page.get_by_role("menuitem", name="Cancel").click()
        self._page.get_by_role("button", name=re.compile("^Cancel (Flow )?Run$", re.IGNORECASE)).click()


def _creates(response: Response) -> bool:
    return response.request.method == "POST" and response.url.endswith("/create_flow_run")
